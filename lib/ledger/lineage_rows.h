// What the rows of learners say of a checkpoint.
#pragma once

#include <algorithm>
#include <vector>

#include "lib/ledger/rows.h"

namespace buttress {

// Returns whether a later learner started from a checkpoint before `version`, so that nothing may
// start from that one.
inline bool WasReplaced(const PolicyVersion& version, const std::vector<LearnerRow>& learners) {
  return std::ranges::any_of(learners, [&](const LearnerRow& learner) {
    return learner.learner_epoch > version.learner_epoch && learner.start_step < version.step;
  });
}

}  // namespace buttress
