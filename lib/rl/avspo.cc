#include "lib/rl/avspo.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/rl/group_offsets.h"
#include "lib/rl/grpo.h"

namespace buttress {
namespace {

constexpr double kNoiseEps = 1e-8;
constexpr double kOppositeEps = 1e-6;

double Blend(double weight, double real, double virtual_advantage) { return (1.0 - weight) * real + weight * virtual_advantage; }

// Share of groups with a sample variance below the threshold: the brief's compute_acr.
double VarianceAcr(const AdvantageInput& input, double variance_threshold) {
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    const GroupStats stats =
        ComputeGroupStats(GroupRows(input.raw_rewards, input.group_offsets, k), GroupRows(input.outcomes, input.group_offsets, k));
    if (stats.scorable < 2) continue;
    ++groups;
    collapsed += stats.sample_variance() < variance_threshold ? 1 : 0;
  }
  return groups == 0 ? 0.0 : static_cast<double>(collapsed) / static_cast<double>(groups);
}

Status Noise(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  AlgorithmConfig real = options;
  real.std = "sample";
  real.eps = kNoiseEps;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, real, out));
  const AvspoConfig& avspo = options.avspo;
  const double weight = ConfidenceWeight(VarianceAcr(input, avspo.variance_threshold), avspo.acr_threshold, avspo.slope);
  if (weight == 0) return OkStatus();

  std::vector<double> noisy(input.rewards.begin(), input.rewards.end());
  for (std::size_t row = 0; row < noisy.size(); ++row) noisy[row] += avspo.noise_std * NormalAt(input.key, row);
  AdvantageInput noisy_input = input;
  noisy_input.rewards = noisy;
  AdvantageOutput noisy_out;
  noisy_out.advantages.resize(noisy.size());
  BUTTRESS_RETURN_IF_ERROR(Grpo(noisy_input, real, noisy_out));
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    if (out.collapse[k] == CollapseClass::kUnscorable) continue;
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    const auto virtual_samples = static_cast<std::int32_t>(
        ComputeGroupStats(rewards, GroupRows(input.outcomes, input.group_offsets, k)).scorable);
    out.decisions[k] = {true, weight, virtual_samples};
  }
  for (std::size_t row = 0; row < noisy.size(); ++row) {
    out.advantages[row] = Blend(weight, out.advantages[row], noisy_out.advantages[row]);
  }
  return OkStatus();
}

// Blends one group with its advantages among G + 1 rewards, the last of them `opposite`.
void InjectOpposite(std::span<const double> rewards, std::span<const Outcome> outcomes, double opposite, double weight,
                    std::span<double> advantages) {
  std::vector<double> extended(rewards.begin(), rewards.end());
  extended.push_back(opposite);
  std::vector<Outcome> extended_outcomes(outcomes.begin(), outcomes.end());
  if (!outcomes.empty()) extended_outcomes.push_back(opposite == 0.0 ? Outcome::kWrong : Outcome::kCorrect);
  std::vector<double> virtual_advantages(extended.size());
  NormalizeGroup(extended, extended_outcomes, StdKind::kSample, kOppositeEps, virtual_advantages);
  for (std::size_t i = 0; i < rewards.size(); ++i) advantages[i] = Blend(weight, advantages[i], virtual_advantages[i]);
}

Status Opposite(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double weight = ConfidenceWeight(input.collapse.step.acr(), options.avspo.acr_threshold, options.avspo.slope);
  if (weight == 0) return OkStatus();
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    const CollapseClass collapse = out.collapse[k];
    if (collapse != CollapseClass::kAllCorrect && collapse != CollapseClass::kAllWrong) continue;
    InjectOpposite(GroupRows(input.rewards, input.group_offsets, k), GroupRows(input.outcomes, input.group_offsets, k),
                   collapse == CollapseClass::kAllCorrect ? 0.0 : 1.0, weight,
                   GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
    out.decisions[k] = {true, weight, 1};
  }
  return OkStatus();
}

}  // namespace

double ConfidenceWeight(double acr, double acr_threshold, double slope) {
  if (!(acr > acr_threshold)) return 0.0;
  return std::min(1.0, slope * (acr - acr_threshold));
}

Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  if (options.avspo.mode == "noise") return Noise(input, options, out);
  if (options.avspo.mode == "opposite") return Opposite(input, options, out);
  return InvalidArgument("algorithm.avspo.mode = '" + options.avspo.mode + "' is not known; choose one of: noise, opposite");
}

}  // namespace buttress
