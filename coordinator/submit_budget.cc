#include "coordinator/submit_budget.h"

#include "lib/base/check.h"

namespace buttress {

bool SubmitBudget::Reserve(const std::string& worker_id, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  std::uint64_t& held = by_worker_[worker_id];
  const bool fits = bytes <= kTotalBytes - total_ && bytes <= kWorkerBytes - held;
  if (fits) {
    total_ += bytes;
    held += bytes;
  } else if (held == 0) {
    by_worker_.erase(worker_id);
  }
  return fits;
}

void SubmitBudget::Release(const std::string& worker_id, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto held = by_worker_.find(worker_id);
  BUTTRESS_CHECK(held != by_worker_.end() && held->second >= bytes && total_ >= bytes,
                 "no more bytes are released than were reserved");
  total_ -= bytes;
  held->second -= bytes;
  if (held->second == 0) by_worker_.erase(held);
}

}  // namespace buttress
