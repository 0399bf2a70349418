// The policy versions that are valid, and those that the learner went back behind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "lib/base/report/check.h"
#include "lib/experience/types.h"

namespace buttress {

// Not thread-safe.
class Lineage {
 public:
  // Records that the learner of `epoch` starts from the checkpoint of `start_step`. REQUIRES:
  // `epoch` is above all earlier ones.
  void Start(std::uint64_t epoch, std::uint64_t start_step) {
    BUTTRESS_CHECK(start_by_epoch_.empty() || start_by_epoch_.rbegin()->first < epoch,
                   "learner epochs rise");
    start_by_epoch_[epoch] = start_step;
  }

  // Returns true if a later learner started from a checkpoint before `version`.
  bool Abandoned(const PolicyVersion& version) const {
    return std::any_of(start_by_epoch_.upper_bound(version.learner_epoch), start_by_epoch_.end(),
                       [&](const auto& later) { return later.second < version.step; });
  }

  // Returns the start step of `epoch`, 0 for an epoch that never started.
  std::uint64_t StartStep(std::uint64_t epoch) const {
    const auto start = start_by_epoch_.find(epoch);
    return start == start_by_epoch_.end() ? 0 : start->second;
  }

  bool operator==(const Lineage&) const = default;

 private:
  std::map<std::uint64_t, std::uint64_t> start_by_epoch_;
};

}  // namespace buttress
