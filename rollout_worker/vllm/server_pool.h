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

// A server that fails is lost until Restore: it may have come back with other weights. Thread-safe.
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
  void Restore(std::size_t server, ServerInfo info);

  std::vector<std::size_t> Serving() const;
  std::vector<std::size_t> Lost() const;
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
  };

  void MarkLost(Server& server, const Status& why) REQUIRES(mutex_);
  std::vector<std::size_t> Where(bool lost) const;

  mutable Mutex mutex_;
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  Status last_failure_ GUARDED_BY(mutex_);
};

}  // namespace buttress
