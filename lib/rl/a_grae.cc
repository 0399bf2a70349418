#include "lib/rl/a_grae.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"

namespace buttress {
namespace {

struct SuccessRates {
  std::vector<double> of_group;  // [K]; 0 for a group without completions
  double of_batch = 0;           // over completions
  double mean_of_groups = 0;     // over groups that have completions
};

Result<SuccessRates> ComputeRates(const AdvantageInput& input) {
  SuccessRates rates;
  double successes = 0;
  double groups = 0;
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    const auto begin = static_cast<std::size_t>(input.group_offsets[k]);
    const auto end = static_cast<std::size_t>(input.group_offsets[k + 1]);
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double reward = input.raw_rewards[i];
      if (input.outcomes.empty() && !(reward >= 0 && reward <= 1)) {
        return InvalidArgument("a_grae needs success rates: outcomes, or rewards in [0, 1]; completion " + std::to_string(i) +
                               " of the batch has raw reward " + std::to_string(reward) + " and no outcome");
      }
      sum += input.outcomes.empty() ? reward : input.outcomes[i] == Outcome::kCorrect ? 1.0 : 0.0;
    }
    rates.of_group.push_back(begin == end ? 0.0 : sum / static_cast<double>(end - begin));
    successes += sum;
    groups += begin == end ? 0 : 1;
    rates.mean_of_groups += rates.of_group.back();
  }
  if (!input.raw_rewards.empty()) rates.of_batch = successes / static_cast<double>(input.raw_rewards.size());
  if (groups > 0) rates.mean_of_groups /= groups;
  return rates;
}

double PaperFactor(double p, double omega) {
  if (p <= 0 || p >= 1) return 1.0;
  return omega / 2 / std::sqrt(p) + (1 - omega) / 2 / std::sqrt(1 - p);
}

double ReleasedFactor(double p, double omega, double eps) {
  return omega / 2 / (std::sqrt(p) + eps) + (1 - omega) / 2 / (1 - std::sqrt(p) + eps);
}

}  // namespace

Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const AgraeConfig& config = options.a_grae;
  if (config.form != "paper" && config.form != "released") {
    return InvalidArgument("algorithm.a_grae.form = '" + config.form + "' is not known; choose one of: paper, released");
  }
  const bool released = config.form == "released";
  BUTTRESS_ASSIGN_OR_RETURN(const SuccessRates rates, ComputeRates(input));
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double omega = released ? rates.mean_of_groups : rates.of_batch;
  const double suppression = std::min(1.0, omega / config.alpha);
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const double p = rates.of_group[k];
    const double factor = released ? ReleasedFactor(p, omega, options.eps) : PaperFactor(p, omega);
    for (double& advantage : GroupRows(std::span<double>(out.advantages), input.group_offsets, k)) {
      if (advantage == 0) continue;
      advantage *= advantage > 0 ? factor * suppression : factor;
    }
  }
  return OkStatus();
}

}  // namespace buttress
