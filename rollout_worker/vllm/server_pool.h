// Which vLLM servers serve, and which of them gets the next completion.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "rollout_worker/vllm/control.h"

namespace buttress {

// A server that fails, in a completion or in a health check, is lost until Restore: it may have
// come back with other weights. Thread-safe.
class ServerPool {
 public:
  explicit ServerPool(std::vector<ServerInfo> servers);

  // The serving server with the most room in proportion, one more completion counted on it; nothing
  // where none has room.
  std::optional<std::size_t> Acquire();

  // The completion has ended so. No or a broken connection or a passed deadline loses the server at
  // once, three failures in a row as well.
  void Release(std::size_t server, const Status& ended);

  // The completion was given up by us.
  void Release(std::size_t server);

  void Lose(std::size_t server, const Status& why);
  // The server serves again. False, and it does not, if it has been lost anew since Recovered named
  // it.
  bool Restore(std::size_t server, ServerInfo info);

  // What a health check of the server found; a failure loses it.
  void SetHealth(std::size_t server, const Status& health);

  std::vector<std::size_t> Serving() const;
  // Lost, and found healthy since.
  std::vector<std::size_t> Recovered() const;
  std::vector<ServerState> States() const;
  ServerInfo Info(std::size_t server) const;
  std::size_t size() const;
  // Why the last server was lost.
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

  void MarkLost(Server& server, const Status& why) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  Status last_failure_ GUARDED_BY(mutex_);
};

}  // namespace buttress
