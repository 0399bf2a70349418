// Bounds what submissions may hold in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lib/base/sync.h"

namespace buttress {

// Bytes of a submitted group at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// Bytes of groups that are being received or written, together and from one worker. Thread-safe.
class SubmitBudget {
 public:
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kWorkerBytes = kMaxGroupBytes;

  // False if it is spent.
  bool Take(const std::string& worker_id, std::uint64_t bytes);
  void GiveBack(const std::string& worker_id, std::uint64_t bytes);

 private:
  Mutex mutex_;
  std::uint64_t total_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> by_worker_ GUARDED_BY(mutex_);
};

}  // namespace buttress
