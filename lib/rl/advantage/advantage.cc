#include "lib/rl/advantage/advantage.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

struct ColumnSize {
  std::string_view name;
  std::size_t size, expected;
};

Status CheckShapes(const AdvantageInput& input) {
  const std::size_t rows = input.rewards.size();
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(input.group_offsets, rows));
  const std::size_t groups = input.groups();
  const ColumnSize columns[] = {
      {"raw_rewards", input.raw_rewards.size(), rows},
      {"lengths", input.lengths.size(), rows},
      {"history", input.history.size(), groups},
      {"classes", input.classes.size(), groups},
      {"outcomes", input.outcomes.size(), input.outcomes.empty() ? 0 : rows},
      {"sources", input.sources.size(), input.sources.empty() ? 0 : groups}};
  for (const auto& [name, size, expected] : columns) {
    if (size != expected)
      return InvalidArgument(fmt::format("{} has {} entries; expected {}", name, size, expected));
  }
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
  for (const double component : std::span(input.components).subspan(i * components, components)) {
    if (!std::isfinite(component))
      return refuse(fmt::format("component = {}; expected a finite number", component));
  }
  if (input.lengths[i] < 0)
    return refuse(fmt::format("length = {}; expected 0 or more", input.lengths[i]));
  return OkStatus();
}

// Checks that shapes agree, outcomes are set, scorable completions have finite rewards and
// components, lengths are not negative, and histories have 0 <= correct <= scored.
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

// An estimator that overflows must not reach the weights.
Status CheckAdvantages(const AdvantageOutput& out, std::string_view estimator) {
  const auto bad = std::ranges::find_if_not(
      out.advantages, [](double advantage) { return std::isfinite(advantage); });
  if (bad == out.advantages.end()) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} gives no finite advantage for completion {} of the batch; the rewards are too large, or "
      "algorithm.eps is 0 and they differ by rounding only",
      estimator, bad - out.advantages.begin()));
}

bool ReadsWholeBatch(Estimator estimator) {
  return estimator == Estimator::kReinforcePp || estimator == Estimator::kReinforcePpBaseline ||
         estimator == Estimator::kGdpo || estimator == Estimator::kRlZvp;
}

// The advantages of a group with `correct` right completions, which come first.
Result<AdvantageOutput> BinaryAdvantages(int correct, int size, double p,
                                         const AlgorithmConfig& options) {
  const auto n = static_cast<std::size_t>(size);
  AdvantageInput input;
  input.rewards.assign(n, 0.0);
  std::fill_n(input.rewards.begin(), correct, 1.0);
  input.raw_rewards = input.rewards;
  input.outcomes.assign(n, Outcome::kWrong);
  std::fill_n(input.outcomes.begin(), correct, Outcome::kCorrect);
  input.lengths.assign(n, 1);
  input.group_offsets = {0, size};
  input.history = {{std::llround(p * 1e6), 1'000'000}};
  input.classes = {ClassifyGroup(input.rewards, input.outcomes)};
  input.collapse.step.Add(input.classes[0]);
  input.collapse.cumulative = input.collapse.step;
  input.collapse.acr_ema = 1;
  return ComputeAdvantages(input, options);
}

}  // namespace

ScorableGroup AdvantageInput::scorable_group(std::size_t k) const {
  ScorableGroup group;
  for (auto row = static_cast<std::size_t>(group_offsets[k]);
       row < static_cast<std::size_t>(group_offsets[k + 1]); ++row) {
    if (!scorable(row)) continue;
    group.rows.push_back(row);
    group.rewards.push_back(rewards[row]);
  }
  return group;
}

Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input,
                                          const AlgorithmConfig& options) {
  BUTTRESS_RETURN_IF_ERROR(CheckBatch(input));
  AdvantageOutput out;
  out.decisions.resize(input.classes.size());
  out.next_gate = input.gate;
  out.advantages.assign(input.rewards.size(), 0.0);
  const EstimatorInfo& info = InfoOf(options.advantage);
  BUTTRESS_RETURN_IF_ERROR(info.compute(input, options, out));
  for (std::size_t row = 0; row < out.advantages.size(); ++row) {
    if (input.scorable(row)) continue;
    out.advantages[row] = 0;
    if (!out.entropy_scale.empty()) out.entropy_scale[row] = 0;
  }
  BUTTRESS_RETURN_IF_ERROR(CheckAdvantages(out, info.name()));
  return out;
}

std::optional<GradientMoments> MomentsOf(double p, int size, const AlgorithmConfig& options) {
  constexpr double kNever = 1e-15;  // adds less than rounding does
  if (ReadsWholeBatch(options.advantage)) return std::nullopt;
  GradientMoments moments;
  for (int k = 0; k <= size; ++k) {
    const double log_ways = std::lgamma(size + 1) - std::lgamma(k + 1) - std::lgamma(size - k + 1);
    const double chance = std::exp(log_ways + k * std::log(p) + (size - k) * std::log1p(-p));
    if (chance < kNever) continue;
    const auto out = BinaryAdvantages(k, size, p, options);
    if (!out.ok()) return std::nullopt;
    for (int i = 0; i < size; ++i) {
      const double advantage = out->advantages[static_cast<std::size_t>(i)];
      moments.weight += chance * advantage * (i < k ? 1 / p : -1 / (1 - p)) / size;
      moments.power += chance * advantage * advantage / size;
    }
  }
  return moments;
}

RandomKey AdvantageKey(std::uint64_t run_seed, std::int64_t step) {
  return {MixSeed(run_seed, HashText("advantage")), static_cast<std::uint64_t>(step)};
}

}  // namespace buttress
