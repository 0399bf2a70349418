#include "lib/rl/advantage/check_batch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace buttress {
namespace {

template <class T>
Status CheckRows(std::string_view field, std::span<const T> values, std::size_t rows) {
  if (values.size() == rows) return OkStatus();
  return InvalidArgument(fmt::format("{} has {} entries; expected {}", field, values.size(), rows));
}

Status CheckShapes(const AdvantageInput& input) {
  const std::size_t rows = input.rewards.size();
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(input.group_offsets, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("raw_rewards", input.raw_rewards, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("lengths", input.lengths, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("history", input.history, input.group_offsets.size() - 1));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("classes", input.classes, input.group_offsets.size() - 1));
  if (!input.outcomes.empty())
    BUTTRESS_RETURN_IF_ERROR(CheckRows("outcomes", input.outcomes, rows));
  if (!input.sources.empty())
    BUTTRESS_RETURN_IF_ERROR(CheckRows("sources", input.sources, input.group_offsets.size() - 1));
  for (const std::int32_t source : input.sources) {
    if (0 <= source && static_cast<std::size_t>(source) < input.collapse.sources.size()) continue;
    return InvalidArgument(fmt::format("source {} of a group; expected 0 to {}", source,
                                       std::ssize(input.collapse.sources) - 1));
  }
  if (rows == 0 ? input.components.empty() : input.components.size() % rows == 0) return OkStatus();
  return InvalidArgument(
      fmt::format("components has {} entries; expected a multiple of the {} completions",
                  input.components.size(), rows));
}

Status CheckCompletion(const AdvantageInput& input, std::size_t i) {
  const auto refuse = [i](const std::string& what) {
    return InvalidArgument(fmt::format("completion {} of the batch: {}", i, what));
  };
  if (!input.outcomes.empty() && input.outcomes[i] == Outcome::kUnspecified)
    return refuse("outcome is not set");
  const bool unscorable = input.outcomes.empty() ? std::isnan(input.raw_rewards[i])
                                                 : input.outcomes[i] == Outcome::kUnscorable;
  if (unscorable) return OkStatus();
  if (!std::isfinite(input.rewards[i]) || !std::isfinite(input.raw_rewards[i])) {
    return refuse(
        fmt::format("reward = {}, raw reward = {}; expected finite numbers, or outcome unscorable",
                    input.rewards[i], input.raw_rewards[i]));
  }
  const std::size_t components = input.components.size() / input.rewards.size();
  for (const double component : input.components.subspan(i * components, components)) {
    if (!std::isfinite(component))
      return refuse(fmt::format("component = {}; expected a finite number", component));
  }
  if (input.lengths[i] < 0)
    return refuse(fmt::format("length = {}; expected 0 or more", input.lengths[i]));
  return OkStatus();
}

}  // namespace

Status CheckBatch(const AdvantageInput& input) {
  BUTTRESS_RETURN_IF_ERROR(CheckShapes(input));
  for (std::size_t i = 0; i < input.rewards.size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(CheckCompletion(input, i));
  for (std::size_t k = 0; k < input.history.size(); ++k) {
    const PromptHistory& history = input.history[k];
    const auto refuse = [k](const char* sums, auto correct, auto scored) {
      return InvalidArgument(
          fmt::format("{} of group {}: {} correct of {}; expected 0 <= correct <= scored", sums, k,
                      correct, scored));
    };
    if (!(0 <= history.correct && history.correct <= history.scored))
      return refuse("history", history.correct, history.scored);
    if (!(0 <= history.recent_correct && history.recent_correct <= history.recent_scored))
      return refuse("recent history", history.recent_correct, history.recent_scored);
  }
  return OkStatus();
}

Status CheckAdvantages(const AdvantageOutput& out, std::string_view estimator) {
  const auto bad = std::ranges::find_if_not(
      out.advantages, [](double advantage) { return std::isfinite(advantage); });
  if (bad == out.advantages.end()) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} gives no finite advantage for completion {} of the batch; the rewards are too large, or "
      "algorithm.eps is 0 and they differ by rounding only",
      estimator, bad - out.advantages.begin()));
}

}  // namespace buttress
