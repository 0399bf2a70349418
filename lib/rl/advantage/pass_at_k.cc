// pass_at_k: what a completion adds to the reward of the groups of k that hold it.
#include <fmt/core.h>

#include <cmath>

#include "lib/rl/advantage/estimators.h"

namespace buttress {
namespace {

Status CheckOutcomes(const AdvantageInput& input) {
  for (std::size_t i = 0; input.outcomes.empty() && i < input.raw_rewards.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (reward == 1 || reward == 0) continue;
    return InvalidArgument(
        fmt::format("pass_at_k needs outcomes, or rewards of 1 and 0; completion {} of the batch "
                    "has raw reward {} and no outcome",
                    i, reward));
  }
  return OkStatus();
}

bool IsCorrect(const AdvantageInput& input, std::size_t row) {
  return input.outcomes.empty() ? input.raw_rewards[row] == 1
                                : input.outcomes[row] == Outcome::kCorrect;
}

// log of C(wrong, k) / C(n, k), the chance that k of n completions are all wrong, as a sum of logs
// that neither overflows nor cancels. REQUIRES: k <= wrong < n.
double LogAllWrong(std::int64_t wrong, std::int64_t n, std::int64_t k) {
  const auto correct = static_cast<double>(n - wrong);
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += std::log1p(-correct / static_cast<double>(n - i));
  return sum;
}

}  // namespace

Status PassAtKAdvantage(const AdvantageInput& input, const AlgorithmConfig& options,
                        AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckOutcomes(input));
  for (std::size_t group = 0; group < input.groups(); ++group) {
    if (input.classes[group] != CollapseClass::kMixed) continue;
    const auto begin = static_cast<std::size_t>(input.group_offsets[group]);
    const std::span<double> advantages = out.group_advantages(input, group);
    const auto n = static_cast<std::int64_t>(advantages.size());
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < advantages.size(); ++i)
      wrong += IsCorrect(input, begin + i) ? 0 : 1;
    if (wrong < options.pass_at_k.k || wrong == n) continue;
    const double log_wrong = LogAllWrong(wrong, n, options.pass_at_k.k);
    const double root = std::exp(log_wrong / 2);  // of q, which may be below every double
    if (root == 0) continue;
    const double sigma = root * std::sqrt(-std::expm1(log_wrong));
    const double divisor = options.std == StdKind::kNone ? 1.0 : sigma + options.eps;
    const double positive = root * (root / divisor);
    const double negative = -positive * static_cast<double>(n - wrong) / static_cast<double>(wrong);
    for (std::size_t i = 0; i < advantages.size(); ++i)
      advantages[i] = IsCorrect(input, begin + i) ? positive : negative;
  }
  return OkStatus();
}

}  // namespace buttress
