#include "lib/rl/collapse/acr.h"

#include <algorithm>
#include <limits>

#include "lib/base/check.h"

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
    all_correct =
        all_correct && (outcomes.empty() ? reward == 1.0 : outcomes[i] == Outcome::kCorrect);
    all_wrong = all_wrong && (outcomes.empty() ? reward == 0.0 : outcomes[i] == Outcome::kWrong);
  }
  if (scorable < 2) return CollapseClass::kUnscorable;
  if (highest - lowest > kCollapseTolerance) return CollapseClass::kMixed;
  if (all_correct) return CollapseClass::kAllCorrect;
  if (all_wrong) return CollapseClass::kAllWrong;
  return CollapseClass::kOtherConstant;
}

double ExpectedAllCorrect(const PromptHistory& history, std::int64_t n) {
  BUTTRESS_CHECK(0 <= history.correct && history.correct <= history.scored,
                 "a history has 0 <= correct <= scored");
  // The posterior is Beta(a, b); E[p^n] = prod_{i < n} (a + i) / (a + b + i).
  const double a = 1.0 + static_cast<double>(history.correct);
  const double b = 1.0 + static_cast<double>(history.scored - history.correct);
  double all_correct = 1.0;
  for (std::int64_t i = 0; i < n; ++i)
    all_correct *= (a + static_cast<double>(i)) / (a + b + static_cast<double>(i));
  return all_correct;
}

double ExpectedCollapse(const PromptHistory& history, std::int64_t n) {
  if (n < 2) return 1.0;
  // E[(1 - p)^n] is E[p^n] with correct and wrong exchanged.
  return ExpectedAllCorrect(history, n) +
         ExpectedAllCorrect({history.scored - history.correct, history.scored}, n);
}

}  // namespace buttress
