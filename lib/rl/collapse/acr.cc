#include "lib/rl/collapse/acr.h"

#include <algorithm>
#include <limits>

#include "lib/base/report/check.h"

namespace buttress {

CollapseClass ClassifyGroup(std::span<const double> raw_rewards,
                            std::span<const Outcome> outcomes) {
  BUTTRESS_CHECK(outcomes.empty() || outcomes.size() == raw_rewards.size(),
                 "one outcome per reward");
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  int scorable = 0;
  bool all_correct = true;
  bool all_wrong = true;
  for (std::size_t i = 0; i < raw_rewards.size(); ++i) {
    const double reward = raw_rewards[i];
    if (!IsScorable(reward, outcomes, i)) continue;
    ++scorable;
    lowest = std::min(lowest, reward);
    highest = std::max(highest, reward);
    all_correct = all_correct &&
                  (outcomes.empty() ? EqualRewards(reward, 1) : outcomes[i] == Outcome::kCorrect);
    all_wrong =
        all_wrong && (outcomes.empty() ? EqualRewards(reward, 0) : outcomes[i] == Outcome::kWrong);
  }
  if (scorable < 2) return CollapseClass::kUnscorable;
  if (!EqualRewards(lowest, highest)) return CollapseClass::kMixed;
  if (all_correct) return CollapseClass::kAllCorrect;
  if (all_wrong) return CollapseClass::kAllWrong;
  return CollapseClass::kOtherConstant;
}

}  // namespace buttress
