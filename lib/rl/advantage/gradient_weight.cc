#include "lib/rl/advantage/gradient_weight.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

bool ReadsWholeBatch(Estimator estimator) {
  return estimator == Estimator::kReinforcePp || estimator == Estimator::kReinforcePpBaseline ||
         estimator == Estimator::kGdpo || estimator == Estimator::kRlZvp;
}

// The advantages of a group with `correct` right completions, which come first.
Result<AdvantageOutput> Advantages(int correct, int size, double p,
                                   const AlgorithmConfig& options) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<double> rewards(n, 0.0);
  std::fill_n(rewards.begin(), correct, 1.0);
  std::vector<Outcome> outcomes(n, Outcome::kWrong);
  std::fill_n(outcomes.begin(), correct, Outcome::kCorrect);
  const std::vector<std::int32_t> lengths(n, 1), offsets = {0, size};
  const std::vector<PromptHistory> history = {{std::llround(p * 1e6), 1'000'000}};
  AdvantageInput input;
  input.rewards = input.raw_rewards = rewards;
  input.outcomes = outcomes;
  input.lengths = lengths;
  input.group_offsets = offsets;
  input.history = history;
  const CollapseClass collapse = ClassifyGroup(rewards, outcomes);
  input.classes = {&collapse, 1};
  input.collapse.step.Add(collapse);
  input.collapse.cumulative = input.collapse.step;
  input.collapse.acr_ema = 1;
  return ComputeAdvantages(input, options);
}

}  // namespace

std::optional<double> GradientWeight(double p, int size, const AlgorithmConfig& options) {
  if (ReadsWholeBatch(options.advantage)) return std::nullopt;
  double weight = 0;
  for (int k = 0; k <= size; ++k) {
    const auto out = Advantages(k, size, p, options);
    if (!out.ok()) return std::nullopt;
    const double log_ways = std::lgamma(size + 1) - std::lgamma(k + 1) - std::lgamma(size - k + 1);
    double gradient = 0;
    for (int i = 0; i < size; ++i) {
      gradient +=
          out->advantages[static_cast<std::size_t>(i)] * (i < k ? 1 / p : -1 / (1 - p)) / size;
    }
    weight += std::exp(log_ways + k * std::log(p) + (size - k) * std::log1p(-p)) * gradient;
  }
  return weight;
}

}  // namespace buttress
