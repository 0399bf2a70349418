// Bounds the memory that submissions hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lib/base/sync.h"

namespace buttress {

// The size of a submitted group in bytes, at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// Counts the bytes of the groups in submission, of all workers and of each one. Thread-safe.
class SubmitBudget {
 public:
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kWorkerBytes = kMaxGroupBytes;

  // Returns false, without a change, if either bound would be exceeded.
  bool Reserve(const std::string& worker_id, std::uint64_t bytes);

  // REQUIRES: the bytes are reserved.
  void Release(const std::string& worker_id, std::uint64_t bytes);

 private:
  Mutex mutex_;
  std::uint64_t total_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> by_worker_ GUARDED_BY(mutex_);
};

}  // namespace buttress
