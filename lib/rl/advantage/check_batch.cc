#include "lib/rl/advantage/check_batch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/lanes.h"

namespace buttress {
namespace {

template <class T>
Status CheckRows(std::string_view field, std::span<const T> values, std::size_t rows) {
  if (values.size() == rows) return OkStatus();
  return InvalidArgument(std::string(field) + " has " + std::to_string(values.size()) +
                         " entries; expected " + std::to_string(rows));
}

Status CheckShapes(const AdvantageInput& input) {
  const std::size_t rows = input.rewards.size();
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(input.group_offsets, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("raw_rewards", input.raw_rewards, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("lengths", input.lengths, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("history", input.history, input.group_offsets.size() - 1));
  if (!input.outcomes.empty())
    BUTTRESS_RETURN_IF_ERROR(CheckRows("outcomes", input.outcomes, rows));
  if (rows == 0 ? input.components.empty() : input.components.size() % rows == 0) return OkStatus();
  return InvalidArgument("components has " + std::to_string(input.components.size()) +
                         " entries; expected a multiple of the " + std::to_string(rows) +
                         " completions");
}

// A value that is not finite makes x * 0 not 0.
BUTTRESS_KERNEL bool AllFinite(std::span<const double> values) {
  return SumOf(values, [](const auto& x) { return x * 0.0; }) == 0;
}

BUTTRESS_KERNEL bool AllJudged(std::span<const Outcome> outcomes) {
  unsigned worst = 0;
  for (const Outcome outcome : outcomes) {
    const unsigned beyond =
        static_cast<unsigned>(outcome) - static_cast<unsigned>(Outcome::kCorrect);
    worst |= beyond > 1U ? 1U : 0U;
  }
  return worst == 0;
}

BUTTRESS_KERNEL bool NoneNegative(std::span<const std::int32_t> lengths) {
  std::int32_t signs = 0;
  for (const std::int32_t length : lengths) signs |= length;
  return signs >= 0;
}

bool IsUnscorable(const AdvantageInput& input, std::size_t i) {
  return input.outcomes.empty() ? std::isnan(input.raw_rewards[i])
                                : input.outcomes[i] == Outcome::kUnscorable;
}

Status CheckCompletion(const AdvantageInput& input, std::size_t i) {
  const auto refuse = [i](const std::string& what) {
    return InvalidArgument("completion " + std::to_string(i) + " of the batch: " + what);
  };
  if (!input.outcomes.empty() && input.outcomes[i] == Outcome::kUnspecified)
    return refuse("outcome is not set");
  if (IsUnscorable(input, i)) return OkStatus();
  if (!std::isfinite(input.rewards[i]) || !std::isfinite(input.raw_rewards[i])) {
    return refuse("reward = " + std::to_string(input.rewards[i]) +
                  ", raw reward = " + std::to_string(input.raw_rewards[i]) +
                  "; expected finite numbers, or outcome unscorable");
  }
  const std::size_t components = input.components.size() / input.rewards.size();
  for (const double component : input.components.subspan(i * components, components)) {
    if (!std::isfinite(component))
      return refuse("component = " + std::to_string(component) + "; expected a finite number");
  }
  if (input.lengths[i] < 0)
    return refuse("length = " + std::to_string(input.lengths[i]) + "; expected 0 or more");
  return OkStatus();
}

// The common case: no completion needs a second look.
bool AllScorable(const AdvantageInput& input) {
  static_assert(Outcome::kCorrect < Outcome::kWrong && Outcome::kWrong < Outcome::kUnscorable);
  const bool shaped = input.raw_rewards.data() != input.rewards.data();
  return AllFinite(input.rewards) && (!shaped || AllFinite(input.raw_rewards)) &&
         AllFinite(input.components) && AllJudged(input.outcomes) && NoneNegative(input.lengths);
}

}  // namespace

Result<bool> CheckBatch(const AdvantageInput& input) {
  BUTTRESS_RETURN_IF_ERROR(CheckShapes(input));
  const bool all_scorable = AllScorable(input);
  for (std::size_t i = 0; !all_scorable && i < input.rewards.size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(CheckCompletion(input, i));
  for (std::size_t k = 0; k < input.history.size(); ++k) {
    const PromptHistory& history = input.history[k];
    if (0 <= history.correct && history.correct <= history.scored) continue;
    return InvalidArgument("history of group " + std::to_string(k) + ": " +
                           std::to_string(history.correct) + " correct of " +
                           std::to_string(history.scored) + "; expected 0 <= correct <= scored");
  }
  return all_scorable;
}

Status CheckAdvantages(const AdvantageOutput& out, std::string_view estimator) {
  if (AllFinite(out.advantages)) return OkStatus();
  const auto bad = std::ranges::find_if_not(
      out.advantages, [](double advantage) { return std::isfinite(advantage); });
  return InvalidArgument(std::string(estimator) + " gives no finite advantage for completion " +
                         std::to_string(bad - out.advantages.begin()) +
                         " of the batch; the rewards are too large, or algorithm.eps is 0 and they "
                         "differ by rounding only");
}

}  // namespace buttress
