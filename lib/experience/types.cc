#include "lib/experience/types.h"

#include <tuple>

namespace buttress {

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::string_view kNames[] = {"unspecified", "correct", "wrong", "unscorable"};
  return kNames[static_cast<std::size_t>(outcome)];
}

bool OlderThan(const PolicyVersion& a, const PolicyVersion& b) {
  return std::tie(a.learner_epoch, a.step) < std::tie(b.learner_epoch, b.step);
}

std::string ToString(const PolicyVersion& version) {
  return std::to_string(version.learner_epoch) + ":" + std::to_string(version.step);
}

PromptHistory::PromptHistory(std::int64_t group_correct, std::int64_t group_scored)
    : correct(group_correct),
      scored(group_scored),
      recent_correct(static_cast<double>(group_correct)),
      recent_scored(static_cast<double>(group_scored)) {}

void PromptHistory::Add(const PromptHistory& group, double decay) {
  if (group.scored == 0) return;
  correct += group.correct;
  scored += group.scored;
  recent_correct = decay * recent_correct + static_cast<double>(group.correct);
  recent_scored = decay * recent_scored + static_cast<double>(group.scored);
}

}  // namespace buttress
