// A bound on how many things are held at once, and on their bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/report/check.h"
#include "lib/base/thread/sync.h"

namespace buttress {

// Thread-safe.
class Quota {
 public:
  Quota(std::size_t count, std::uint64_t bytes) : most_count_(count), most_bytes_(bytes) {}

  // Returns false, without a change, if either bound would be exceeded.
  bool Take(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    if (count_ == most_count_ || bytes > most_bytes_ - bytes_) return false;
    ++count_;
    bytes_ += bytes;
    return true;
  }

  // REQUIRES: Take(bytes) has returned true once more than this was called with `bytes`.
  void Return(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    BUTTRESS_CHECK(count_ > 0 && bytes_ >= bytes, "no more is returned than was taken");
    --count_;
    bytes_ -= bytes;
  }

 private:
  const std::size_t most_count_;
  const std::uint64_t most_bytes_;
  Mutex mutex_;
  std::size_t count_ GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace buttress
