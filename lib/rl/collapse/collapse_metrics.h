// Metrics of collapse besides the counts of acr.h. All functions are pure; a rate over no groups is
// 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/experience/types.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/acr.h"
#include "lib/rl/collapse/difficulty.h"

namespace buttress {

// The correct and the scored ones of these completions. One is correct by its outcome, or by a raw
// reward of 1 where outcomes are unknown. `outcomes` is [n] or empty.
Trials TrialsOf(std::span<const double> raw_rewards, std::span<const Outcome> outcomes);

// Whether the group is one completion away from constant: of at least three scorable completions,
// all but one have the same raw reward. Such a group is mixed. `outcomes` is [n] or empty.
bool IsNearCollapse(std::span<const double> raw_rewards, std::span<const Outcome> outcomes);

// ClassifyGroup of each group of a batch, [K]; the arguments are those of AdvantageInput.
std::vector<CollapseClass> ClassifyGroups(std::span<const double> raw_rewards,
                                          std::span<const Outcome> outcomes,
                                          std::span<const std::int32_t> group_offsets);

// Share of the groups with at least two scorable completions whose sample variance of raw rewards
// is below `variance_threshold`. This rate takes one success in more than 1 / variance_threshold
// completions for collapse, which ACR does not.
double VarianceThresholdAcr(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
                            std::span<const std::int32_t> group_offsets, double variance_threshold);

// The snapshot of a batch that stands alone: the cumulative counts are its own, the moving average
// is its own ACR, and the expected ACR follows from the difficulty of its own groups.
CollapseSnapshot MakeCollapseSnapshot(std::span<const double> raw_rewards,
                                      std::span<const Outcome> outcomes,
                                      std::span<const std::int32_t> group_offsets,
                                      std::span<const PromptHistory> history);

// Observed minus expected ACR of the step: above 0 where more groups collapse than the difficulty
// of their prompts predicts.
double ExcessAcr(const CollapseSnapshot& snapshot);

// The interval of the step's ACR if difficulty alone is at work.
ExpectedRate ExpectedAcr(const CollapseSnapshot& snapshot);

inline constexpr std::size_t kAcr100Steps = 100;
inline constexpr std::size_t kSigmaSteps = 25;

// ACR-100 (arXiv 2605.21125): mean ACR of the first 100 steps, or of all if there are fewer.
// `acr_by_step` is in the order of the steps.
double Acr100(std::span<const double> acr_by_step);

// sigma_ACR (arXiv 2605.21125): sample standard deviation of the ACR of the last 25 steps, or of
// all if there are fewer; 0 for fewer than two. Above 0.15 the paper finds a 2.3-fold risk of
// divergence.
double SigmaAcr(std::span<const double> acr_by_step);

// Sums over tokens of |weight * q|, where q is the gradient of the loss with respect to the token's
// log-prob. Groups whose raw rewards are constant contribute nothing under GRPO; what they
// contribute comes from virtual samples, from shaping, from the estimator, or from the KL term.
struct GradientMass {
  double all = 0;              // policy loss and KL term, all groups
  double virtual_samples = 0;  // constant groups with injected virtual samples
  double shaping = 0;          // constant groups whose shaped rewards differ
  double estimator = 0;        // other constant groups with an advantage
  double kl = 0;               // KL term of constant groups

  // `part` as a share of `all`; 0 if `all` is 0.
  double share(double part) const { return all > 0 ? part / all : 0.0; }

  double collapsed() const { return virtual_samples + shaping + estimator + kl; }

  bool operator==(const GradientMass&) const = default;
};

// The mass of the policy loss where the learner is still the sampling policy: |A| weight for each
// trained token, without the KL term. Advantages, rewards, weights and lengths are [N], classes and
// decisions [K]. Advantages by the entropy of tokens (TokenAdvantages) are unknown before the
// tokens are run and do not count. Pure.
GradientMass PolicyGradientMass(std::span<const double> advantages, std::span<const double> rewards,
                                std::span<const double> token_weights,
                                std::span<const std::int32_t> lengths,
                                std::span<const std::int32_t> group_offsets,
                                std::span<const CollapseClass> classes,
                                std::span<const VirtualDecision> decisions);

}  // namespace buttress
