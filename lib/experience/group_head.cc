#include "lib/experience/group_head.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace buttress {
namespace {

Status CheckColumn(std::string_view name, int size, int expected) {
  if (size == expected) return OkStatus();
  return InvalidArgument(
      fmt::format("column {} has {} entries; expected {}", name, size, expected));
}

Status CheckColumns(const v1::GroupHead& head) {
  const int n = head.outcomes_size();
  if (n == 0) return InvalidArgument("no completions");
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("finish_reasons", head.finish_reasons_size(), n));
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("raw_rewards", head.raw_rewards_size(), n));
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("rewards", head.rewards_size(), n));
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("lengths", head.lengths_size(), n));
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("trained_lengths", head.trained_lengths_size(), n));
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("logprob_sums", head.logprob_sums_size(), n));
  const int parts = head.component_names_size();
  BUTTRESS_RETURN_IF_ERROR(CheckColumn("component_weights", head.component_weights_size(), parts));
  return CheckColumn("components", head.components_size(), n * parts);
}

Status CheckHistory(const v1::PromptHistory& history) {
  const bool counts = history.correct() <= history.scored() &&
                      history.scored() <= static_cast<std::uint64_t>(INT64_MAX);
  const bool recent = 0 <= history.recent_correct() &&
                      history.recent_correct() <= history.recent_scored() &&
                      history.recent_scored() <= static_cast<double>(history.scored());
  if (counts && recent) return OkStatus();
  return InvalidArgument(fmt::format(
      "history: {} correct of {}, lately {} of {}; expected 0 <= correct <= scored",
      history.correct(), history.scored(), history.recent_correct(), history.recent_scored()));
}

Status CheckCompletion(const v1::GroupHead& head, int i) {
  const bool known = v1::Outcome_IsValid(head.outcomes(i)) &&
                     head.outcomes(i) != v1::OUTCOME_UNSPECIFIED &&
                     v1::FinishReason_IsValid(head.finish_reasons(i));
  const bool finite = std::isfinite(head.raw_rewards(i)) && std::isfinite(head.rewards(i));
  const bool lengths = 0 <= head.trained_lengths(i) && head.trained_lengths(i) <= head.lengths(i);
  if (known && finite && lengths) return OkStatus();
  return InvalidArgument(fmt::format(
      "completion {}: outcome {}, raw reward {}, reward {}, {} trained tokens of {}; expected an "
      "outcome, finite rewards, and no more trained tokens than tokens",
      i, head.outcomes(i), head.raw_rewards(i), head.rewards(i), head.trained_lengths(i),
      head.lengths(i)));
}

}  // namespace

std::vector<Outcome> OutcomesOf(const v1::GroupHead& head) {
  std::vector<Outcome> outcomes(CompletionsOf(head));
  for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i] = OutcomeOf(head, i);
  return outcomes;
}

MinHash TokenSketchOf(const v1::GroupHead& head, std::size_t i) {
  MinHash sketch{};
  const std::string& all = head.token_sketches();
  if (all.size() >= (i + 1) * sizeof(sketch))
    std::memcpy(sketch.data(), all.data() + i * sizeof(sketch), sizeof(sketch));
  return sketch;
}

PromptHistory HistoryOf(const v1::GroupHead& head) {
  PromptHistory history(static_cast<std::int64_t>(head.history().correct()),
                        static_cast<std::int64_t>(head.history().scored()));
  history.recent_correct = head.history().recent_correct();
  history.recent_scored = head.history().recent_scored();
  return history;
}

PromptHistory OwnHistoryOf(const v1::GroupHead& head) {
  const auto correct = std::ranges::count(head.outcomes(), v1::OUTCOME_CORRECT);
  return {correct, correct + std::ranges::count(head.outcomes(), v1::OUTCOME_WRONG)};
}

std::uint64_t OldestStepOf(const v1::GroupHead& head) {
  return std::ranges::min(head.versions(), {}, &v1::PolicyVersion::step).step();
}

Status CheckGroupHead(const v1::GroupHead& head) {
  BUTTRESS_RETURN_IF_ERROR(CheckColumns(head));
  for (int i = 0; i < head.outcomes_size(); ++i) BUTTRESS_RETURN_IF_ERROR(CheckCompletion(head, i));
  if (!std::ranges::all_of(head.components(), [](double part) { return std::isfinite(part); }))
    return InvalidArgument("a reward component is not finite");
  if (!v1::CollapseClass_IsValid(head.collapse()))
    return InvalidArgument(fmt::format("collapse = {} is unknown", head.collapse()));
  return CheckHistory(head.history());
}

}  // namespace buttress
