#include "lib/rl/advantage/a_grae.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/lanes.h"

namespace buttress {
namespace {

struct SuccessRates {
  std::vector<double> of_group;  // [K]; 0 for a group without completions
  double of_batch = 0;           // over completions
  double mean_of_groups = 0;     // over groups that have completions
};

Status CheckRates(std::span<const double> raw_rewards) {
  const auto bad = std::ranges::find_if_not(
      raw_rewards, [](double reward) { return reward >= 0 && reward <= 1; });
  if (bad == raw_rewards.end()) return OkStatus();
  return InvalidArgument("a_grae needs success rates: outcomes, or rewards in [0, 1]; completion " +
                         std::to_string(bad - raw_rewards.begin()) +
                         " of the batch has raw reward " + std::to_string(*bad) +
                         " and no outcome");
}

double Successes(std::span<const double> raw_rewards, std::span<const Outcome> outcomes) {
  if (outcomes.empty()) return std::accumulate(raw_rewards.begin(), raw_rewards.end(), 0.0);
  return static_cast<double>(std::ranges::count(outcomes, Outcome::kCorrect));
}

SuccessRates ComputeRates(const AdvantageInput& input) {
  SuccessRates rates;
  rates.of_group.resize(input.groups());
  double successes = 0;
  double groups = 0;
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto rewards = GroupRows(input.raw_rewards, input.group_offsets, k);
    if (rewards.empty()) continue;
    const double of_group = Successes(rewards, GroupRows(input.outcomes, input.group_offsets, k));
    rates.of_group[k] = of_group / static_cast<double>(rewards.size());
    successes += of_group;
    groups += 1;
    rates.mean_of_groups += rates.of_group[k];
  }
  if (groups == 0) return rates;
  rates.of_batch = successes / static_cast<double>(input.raw_rewards.size());
  rates.mean_of_groups /= groups;
  return rates;
}

double PaperFactor(double p, double omega) {
  if (p <= 0 || p >= 1) return 1.0;
  return omega / 2 / std::sqrt(p) + (1 - omega) / 2 / std::sqrt(1 - p);
}

double ReleasedFactor(double p, double omega, double eps) {
  return omega / 2 / (std::sqrt(p) + eps) + (1 - omega) / 2 / (1 - std::sqrt(p) + eps);
}

BUTTRESS_KERNEL void Reweight(double positive, double negative, std::span<double> advantages) {
  Map(
      advantages,
      [=](const auto& x) { return x > 0.0   ? x * positive
                                  : x < 0.0 ? x * negative
                                            : x; },
      advantages.data());
}

}  // namespace

Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const AgraeConfig& config = options.a_grae;
  if (config.form != "paper" && config.form != "released") {
    return InvalidArgument("algorithm.a_grae.form = '" + config.form +
                           "' is not known; choose one of: paper, released");
  }
  const bool released = config.form == "released";
  if (input.outcomes.empty()) BUTTRESS_RETURN_IF_ERROR(CheckRates(input.raw_rewards));
  const SuccessRates rates = ComputeRates(input);
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double omega = released ? rates.mean_of_groups : rates.of_batch;
  const double suppression = std::min(1.0, omega / config.alpha);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const double p = rates.of_group[k];
    const double factor = released ? ReleasedFactor(p, omega, options.eps) : PaperFactor(p, omega);
    Reweight(factor * suppression, factor,
             GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
  }
  return OkStatus();
}

}  // namespace buttress
