// The vLLM servers of a worker: which of them serve which version, and which gets the next
// completion.
//
//               BeginUpdate                  Serve, FallAsleep
//   lost ───────────────────────► updating ───────────────────► serving, asleep
//    ▲   once a check has passed     │  ▲                             │  │
//    │                               │  └────────── BeginUpdate ──────┘  │
//    └────────── MarkLost ───────────┴───────────────────────────────────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/vllm/control.h"

namespace buttress {

// A server that was reserved for a completion.
struct Reservation {
  std::size_t server = 0;
  std::string url;
  std::string model;
  PolicyVersion version;  // that it serves
  // Whether another server draws the same random numbers, so that both would complete a prompt
  // alike.
  bool shares_seed = false;
  bool takes_stream_interval = false;
};

// A server that fails, in a completion or in a health check, is lost until Serve, because it may
// have restarted with other weights. Thread-safe.
class ServerPool {
 public:
  // The servers begin as lost, and may be updated at once.
  explicit ServerPool(const std::vector<std::string>& urls);

  // Reserves a completion of `group` on a server that serves `oldest` or a newer version: on the
  // same one for all of a group, whose prompt it then reads once, unless that is full or its
  // relative load is more than an eighth above the smallest, else on the least loaded one. Returns
  // nullopt if none of them has room.
  std::optional<Reservation> Acquire(const PolicyVersion& oldest, std::uint64_t group);

  // Ends a completion with the status `ended`. The server is lost if the connection broke or a
  // deadline passed (`disconnected`), or after three failures in a row.
  void Release(std::size_t server, const Status& ended, bool disconnected);

  // Ends a completion that the caller interrupted.
  void Release(std::size_t server);

  void CountTokens(std::size_t server, std::size_t tokens);

  // Marks the server as lost for at least `rest_ms`.
  void MarkLost(std::size_t server, const Status& why, std::int64_t rest_ms = 0);

  // Returns the servers that were lost since the last call, whose completions should be ended.
  std::vector<std::size_t> TakeLost();

  // Records the result of a health check. A server that fails it is lost.
  void SetHealth(std::size_t server, const Status& health);

  // Whether the server should be brought to `target`: it serves another version, sleeps, or is lost
  // and has passed a health check afterwards.
  bool NeedsWeights(std::size_t server, const PolicyVersion& target) const;

  // Stops new completions on the server. Returns false if it needs no weights after all.
  bool BeginUpdate(std::size_t server);

  // Lets the server serve `version`. Returns false, and changes nothing, if it was lost during the
  // update.
  bool Serve(std::size_t server, ServerInfo info, const PolicyVersion& version);

  // Notes that the server has given its GPU memory back. As Serve.
  bool FallAsleep(std::size_t server, ServerInfo info);

  // Whether the server serves; is loading weights or falling asleep; sleeps.
  bool Serves(std::size_t server) const;
  bool Updates(std::size_t server) const;
  bool Sleeps(std::size_t server) const;

  // Whether every server sleeps or is lost.
  bool AllSleep() const;

  // Whether no completion runs on the server, or it is lost.
  bool Idle(std::size_t server) const;

  // Returns the version that the server served last, if any.
  std::optional<PolicyVersion> Served(std::size_t server) const;

  // Whether a server serves `oldest` or a newer version, or is to be brought to one.
  bool MaySample(const PolicyVersion& oldest) const;

  // The version that servers are being brought to.
  void SetTarget(const PolicyVersion& target);

  // Whether any server is not lost.
  bool available() const;

  std::vector<ServerState> States() const;
  ServerInfo Info(std::size_t server) const;

  std::size_t size() const { return size_; }

  // The completions that all servers run at once, and the smallest max_model_len among them.
  std::int64_t concurrency() const;
  std::int64_t max_model_len() const;

  // The reason why the last server was lost.
  Status last_failure() const;

 private:
  enum class Phase { kLost, kUpdating, kServing, kAsleep };

  struct Server {
    ServerInfo info;
    Phase phase = Phase::kLost;
    std::optional<PolicyVersion> version;  // the last that it served
    std::int64_t running = 0;
    int failures_in_a_row = 0;
    bool healthy = false;   // by the last check
    bool recovered = true;  // found healthy since it was lost
    std::int64_t rest_until_ms = 0;
    ServerState counts;  // losses, restarts, completions, tokens
  };

  bool EnterLocked(std::size_t server, ServerInfo info, Phase phase) REQUIRES(mutex_);
  void MarkLostLocked(std::size_t server, const Status& why) REQUIRES(mutex_);

  const std::size_t size_;
  mutable Mutex mutex_;
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  std::vector<std::size_t> lost_ GUARDED_BY(mutex_);  // since TakeLost
  PolicyVersion target_ GUARDED_BY(mutex_);
  Status last_failure_ GUARDED_BY(mutex_);
};

}  // namespace buttress
