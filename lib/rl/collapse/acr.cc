#include "lib/rl/collapse/acr.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/base/check.h"
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/lanes.h"

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

namespace {

// Eight at a time: an outcome is one byte.
BUTTRESS_INLINE bool AllAre(std::span<const Outcome> outcomes, Outcome wanted) {
  static_assert(sizeof(Outcome) == 1);
  const std::uint64_t pattern = 0x0101010101010101u * static_cast<std::uint64_t>(wanted);
  std::uint64_t differ = 0;
  std::uint64_t eight = 0;
  std::size_t i = 0;
  for (; i + sizeof eight <= outcomes.size(); i += sizeof eight) {
    std::memcpy(&eight, &outcomes[i], sizeof eight);
    differ |= eight ^ pattern;
  }
  for (; i < outcomes.size(); ++i) differ |= outcomes[i] == wanted ? 0U : 1U;
  return differ == 0;
}

}  // namespace

BUTTRESS_KERNEL void ClassifyScorableGroups(std::span<const double> raw_rewards,
                                            std::span<const Outcome> outcomes,
                                            std::span<const std::int32_t> group_offsets,
                                            std::span<CollapseClass> classes) {
  static_assert(kCollapseTolerance == 0.0, "equality is a range of 0");
  // Which class a group has is random to the processor, so nothing here branches on it.
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const auto rewards = GroupRows(raw_rewards, group_offsets, k);
    const auto of_group = GroupRows(outcomes, group_offsets, k);
    const double reward = rewards.empty() ? 0.0 : rewards[0];
    const bool all_correct = of_group.empty() ? reward == 1.0 : AllAre(of_group, Outcome::kCorrect);
    const bool all_wrong = of_group.empty() ? reward == 0.0 : AllAre(of_group, Outcome::kWrong);
    auto collapse = static_cast<unsigned>(CollapseClass::kOtherConstant);
    collapse = all_wrong ? static_cast<unsigned>(CollapseClass::kAllWrong) : collapse;
    collapse = all_correct ? static_cast<unsigned>(CollapseClass::kAllCorrect) : collapse;
    collapse = AllEqual(rewards) ? collapse : static_cast<unsigned>(CollapseClass::kMixed);
    collapse = rewards.size() < 2 ? static_cast<unsigned>(CollapseClass::kUnscorable) : collapse;
    classes[k] = static_cast<CollapseClass>(collapse);
  }
}

BUTTRESS_KERNEL CollapseCounts CountClasses(std::span<const CollapseClass> classes) {
  CollapseCounts counts;
  counts.groups = static_cast<std::int64_t>(classes.size());
  const auto count = [classes](CollapseClass wanted) {
    std::int64_t found = 0;
    for (const CollapseClass collapse : classes) found += collapse == wanted ? 1 : 0;
    return found;
  };
  counts.all_correct = count(CollapseClass::kAllCorrect);
  counts.all_wrong = count(CollapseClass::kAllWrong);
  counts.other_constant = count(CollapseClass::kOtherConstant);
  counts.mixed = count(CollapseClass::kMixed);
  counts.unscorable = count(CollapseClass::kUnscorable);
  return counts;
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
  // E[(1-p)^n] is E[p^n] with right and wrong exchanged.
  return ExpectedAllCorrect(history, n) +
         ExpectedAllCorrect({history.scored - history.correct, history.scored}, n);
}

}  // namespace buttress
