#include "coordinator/schedule/lineage.h"

#include "lib/base/report/check.h"

namespace buttress {

void Lineage::Start(std::uint64_t epoch, std::uint64_t start_step) {
  BUTTRESS_CHECK(start_by_epoch_.empty() || start_by_epoch_.rbegin()->first < epoch,
                 "learner epochs rise");
  start_by_epoch_[epoch] = start_step;
}

bool Lineage::Abandoned(const PolicyVersion& version) const {
  for (auto later = start_by_epoch_.upper_bound(version.learner_epoch);
       later != start_by_epoch_.end(); ++later) {
    if (later->second < version.step) return true;
  }
  return false;
}

std::uint64_t Lineage::StartStep(std::uint64_t epoch) const {
  const auto start = start_by_epoch_.find(epoch);
  return start == start_by_epoch_.end() ? 0 : start->second;
}

}  // namespace buttress
