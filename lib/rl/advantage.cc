#include "lib/rl/advantage.h"

#include <array>
#include <cmath>
#include <string>

#include "lib/rl/avspo.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/grpo.h"

namespace buttress {
namespace {

// The whole registry. An array and not registration from each file: it can be read, and a static library's linker drops objects that
// nobody names.
constexpr std::array kEstimators = {
    AdvantageEstimator{"grpo", Grpo, "(r - mean) / (std + eps), arXiv 2402.03300", "exactly 0"},
    AdvantageEstimator{"dr_grpo", DrGrpo, "r - mean, arXiv 2503.20783", "exactly 0"},
    AdvantageEstimator{"avspo", Avspo,
                       "noise: the brief's blend of grpo and grpo on noisy rewards; opposite: one virtual sample of the opposite reward, "
                       "released code of arXiv 2605.21125",
                       "noise: the normalised noise; opposite: weight * (r - mean') / (std' + eps)"},
};

template <class T>
Status CheckRows(std::string_view field, std::span<const T> values, std::size_t rows) {
  if (values.size() == rows) return OkStatus();
  return InvalidArgument(std::string(field) + " has " + std::to_string(values.size()) + " entries; expected " + std::to_string(rows));
}

Status CheckInput(const AdvantageInput& input) {
  const std::size_t rows = input.rewards.size();
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(input.group_offsets, rows));
  const std::size_t groups = input.group_offsets.size() - 1;
  BUTTRESS_RETURN_IF_ERROR(CheckRows("raw_rewards", input.raw_rewards, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("lengths", input.lengths, rows));
  BUTTRESS_RETURN_IF_ERROR(CheckRows("history", input.history, groups));
  if (!input.outcomes.empty()) BUTTRESS_RETURN_IF_ERROR(CheckRows("outcomes", input.outcomes, rows));
  if (rows == 0 ? !input.components.empty() : input.components.size() % rows != 0) {
    return InvalidArgument("components has " + std::to_string(input.components.size()) + " entries; expected a multiple of the " +
                           std::to_string(rows) + " completions");
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string where = "completion " + std::to_string(i) + " of the batch: ";
    if (!input.outcomes.empty() && input.outcomes[i] == Outcome::kUnspecified) return InvalidArgument(where + "outcome is not set");
    if (!input.outcomes.empty() && input.outcomes[i] == Outcome::kUnscorable) continue;
    if (!std::isfinite(input.rewards[i]) || !std::isfinite(input.raw_rewards[i])) {
      return InvalidArgument(where + "reward = " + std::to_string(input.rewards[i]) + ", raw reward = " +
                             std::to_string(input.raw_rewards[i]) + "; expected finite numbers, or outcome unscorable");
    }
    if (input.lengths[i] < 0) return InvalidArgument(where + "length = " + std::to_string(input.lengths[i]) + "; expected 0 or more");
  }
  for (std::size_t k = 0; k < groups; ++k) {
    const PromptHistory& history = input.history[k];
    if (0 <= history.correct && history.correct <= history.scored) continue;
    return InvalidArgument("history of group " + std::to_string(k) + ": " + std::to_string(history.correct) + " correct of " +
                           std::to_string(history.scored) + "; expected 0 <= correct <= scored");
  }
  return OkStatus();
}

// Class of each group. The step's counts come with the batch, because gates of all ranks and of a replay must see the same; a recount
// that differs means that the rewards or the counts are not those of this step.
Result<std::vector<CollapseClass>> Classify(const AdvantageInput& input) {
  std::vector<CollapseClass> classes;
  CollapseCounts recount;
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    classes.push_back(ClassifyGroup(GroupRows(input.raw_rewards, input.group_offsets, k), GroupRows(input.outcomes, input.group_offsets, k)));
    recount.Add(classes.back());
  }
  if (recount == input.collapse.step) return classes;
  return InvalidArgument("collapse.step counts " + std::to_string(input.collapse.step.constant()) + " constant of " +
                         std::to_string(input.collapse.step.groups) + " groups; a recount of the batch gives " +
                         std::to_string(recount.constant()) + " of " + std::to_string(recount.groups));
}

// An estimator that overflows must not reach the weights.
Status CheckOutput(const AdvantageOutput& out, std::string_view estimator) {
  for (std::size_t i = 0; i < out.advantages.size(); ++i) {
    if (std::isfinite(out.advantages[i])) continue;
    return InvalidArgument(std::string(estimator) + " gives no finite advantage for completion " + std::to_string(i) +
                           " of the batch; the rewards are too large, or algorithm.eps is 0 and they differ by rounding only");
  }
  return OkStatus();
}

}  // namespace

std::span<const AdvantageEstimator> AdvantageEstimators() { return kEstimators; }

Result<const AdvantageEstimator*> FindAdvantageEstimator(std::string_view name) {
  std::string choices;
  for (const AdvantageEstimator& estimator : kEstimators) {
    if (estimator.name == name) return &estimator;
    choices += (choices.empty() ? "" : ", ") + std::string(estimator.name);
  }
  return InvalidArgument("algorithm.advantage = '" + std::string(name) + "' is not an estimator; choose one of: " + choices);
}

Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input, const AlgorithmConfig& options) {
  BUTTRESS_ASSIGN_OR_RETURN(const AdvantageEstimator* estimator, FindAdvantageEstimator(options.advantage));
  BUTTRESS_RETURN_IF_ERROR(CheckInput(input));
  const std::size_t groups = input.group_offsets.size() - 1;
  AdvantageOutput out;
  out.advantages.assign(input.rewards.size(), 0.0);
  out.decisions.assign(groups, VirtualDecision{});
  BUTTRESS_ASSIGN_OR_RETURN(out.collapse, Classify(input));
  BUTTRESS_RETURN_IF_ERROR(estimator->compute(input, options, out));
  BUTTRESS_RETURN_IF_ERROR(CheckOutput(out, estimator->name));
  return out;
}

}  // namespace buttress
