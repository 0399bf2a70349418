// The vLLM servers of a worker: which of them serve, and which gets the next completion.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "rollout_worker/vllm/control.h"

namespace buttress {

// A server that fails, in a completion or in a health check, is lost until Restore, because it may
// have restarted with other weights. Thread-safe.
class ServerPool {
 public:
  explicit ServerPool(std::vector<ServerInfo> servers);

  // Reserves a completion on the serving server with the smallest relative load. Returns nullopt if
  // no server has room.
  std::optional<std::size_t> Acquire();

  // Ends a completion with the status `ended`. The server is lost if a deadline passed, or after
  // three failures in a row.
  void Release(std::size_t server, const Status& ended);

  // Ends a completion that the caller cancelled.
  void Release(std::size_t server);

  // Marks the server as lost.
  void MarkLost(std::size_t server, const Status& why);

  // Lets the server serve again. Returns false, and changes nothing, if the server failed again
  // after Recovered returned it.
  bool Restore(std::size_t server, ServerInfo info);

  // Records the result of a health check. A server that fails it is lost.
  void SetHealth(std::size_t server, const Status& health);

  std::vector<std::size_t> Serving() const;

  // Returns the lost servers that passed a health check afterwards.
  std::vector<std::size_t> Recovered() const;
  std::vector<ServerState> States() const;
  ServerInfo Info(std::size_t server) const;
  std::size_t size() const;

  // The reason why the last server was lost.
  Status last_failure() const;

 private:
  struct Server {
    ServerInfo info;
    std::int64_t running = 0;
    int failures_in_a_row = 0;
    bool lost = false;
    bool healthy = true;     // by the last check
    bool recovered = false;  // found healthy since it was lost
  };

  void MarkLostLocked(Server& server, const Status& why) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  Status last_failure_ GUARDED_BY(mutex_);
};

}  // namespace buttress
