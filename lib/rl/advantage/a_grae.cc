#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/rl/advantage/estimators.h"

namespace buttress {
namespace {

// The rates of the batch count the groups that were left out, which are all-correct or all-wrong
// and, as far as is known, of the mean size of the others.
struct SuccessRates {
  std::vector<double> of_group;  // [K]; 0 for a group without completions
  double of_batch = 0;           // over completions
  double mean_of_groups = 0;     // over groups that have completions
};

Status CheckRates(std::span<const double> raw_rewards) {
  const auto bad = std::ranges::find_if_not(
      raw_rewards, [](double reward) { return reward >= 0 && reward <= 1; });
  if (bad == raw_rewards.end()) return OkStatus();
  return InvalidArgument(
      fmt::format("a_grae needs success rates: outcomes, or rewards in [0, 1]; completion {} of "
                  "the batch has raw reward {} and no outcome",
                  bad - raw_rewards.begin(), *bad));
}

SuccessRates ComputeRates(const AdvantageInput& input) {
  SuccessRates rates;
  rates.of_group.resize(input.groups());
  const auto left_correct = static_cast<double>(input.left_out.all_correct);
  const double left_out = left_correct + static_cast<double>(input.left_out.all_wrong);
  double all_successes = 0;
  double groups = 0;
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = GroupRows(input.raw_rewards, input.group_offsets, k);
    const auto outcomes = GroupRows(input.outcomes, input.group_offsets, k);
    if (rewards.empty()) continue;
    double successes = 0;
    for (std::size_t i = 0; i < rewards.size(); ++i)
      successes += outcomes.empty() ? rewards[i] : outcomes[i] == Outcome::kCorrect ? 1.0 : 0.0;
    rates.of_group[k] = successes / static_cast<double>(rewards.size());
    rates.mean_of_groups += rates.of_group[k];
    all_successes += successes;
    groups += 1;
  }
  if (groups == 0) return rates;
  const double size = static_cast<double>(input.raw_rewards.size()) / groups;
  rates.of_batch = (all_successes / size + left_correct) / (groups + left_out);
  rates.mean_of_groups = (rates.mean_of_groups + left_correct) / (groups + left_out);
  return rates;
}

// A_i / g_i of Eq 12.
double PaperFactor(double p, double omega) {
  if (p <= 0 || p >= 1) return 1.0;
  return omega / 2 / std::sqrt(p) + (1 - omega) / 2 / std::sqrt(1 - p);
}

double ReleasedFactor(double p, double omega, double eps) {
  return omega / 2 / (std::sqrt(p) + eps) + (1 - omega) / 2 / (1 - std::sqrt(p) + eps);
}

}  // namespace

Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const bool released = options.a_grae.form == AGraeForm::kReleased;
  if (input.outcomes.empty()) BUTTRESS_RETURN_IF_ERROR(CheckRates(input.raw_rewards));
  const SuccessRates rates = ComputeRates(input);
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double omega = released ? rates.mean_of_groups : rates.of_batch;
  const double suppression = std::min(1.0, omega / options.a_grae.alpha);  // Eq 13
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const double p = rates.of_group[k];
    const double factor = released ? ReleasedFactor(p, omega, options.eps) : PaperFactor(p, omega);
    for (double& advantage : out.group_advantages(input, k)) {
      if (advantage > 0) advantage *= factor * suppression;
      if (advantage < 0) advantage *= factor;
    }
  }
  return OkStatus();
}

}  // namespace buttress
