// How much of the gradient comes from groups whose raw rewards are constant, and through what. Such
// groups teach nothing under GRPO, so whatever they contribute was put there: by virtual samples,
// by shaping, by the estimator, or by the KL term.
#pragma once

#include <cstdint>
#include <span>

#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Sums over tokens of |weight * q|, q the gradient of the loss with respect to the token's
// log-prob.
struct GradientMass {
  double all = 0;              // of the policy loss and the KL term, all groups
  double virtual_samples = 0;  // constant groups with injected virtual samples
  double shaping = 0;          // constant raw rewards, but shaped ones differ
  double estimator = 0;        // other constant groups with an advantage: the estimator gives it
  double kl = 0;               // KL term of constant groups

  // Share of the whole, by source; 0 of nothing.
  double share(double part) const { return all > 0 ? part / all : 0.0; }

  double collapsed() const { return virtual_samples + shaping + estimator + kl; }

  bool operator==(const GradientMass&) const = default;
};

// Of the policy loss, where the learner is still the sampling policy: |A| weight for each trained
// token, without the KL term. All arguments are those of a step: rewards, weights, lengths [N],
// classes and decisions [K]. What depends on a token's entropy (rl_zvp.h) is not known before it is
// run and not counted. Pure.
GradientMass PolicyGradientMass(std::span<const double> advantages, std::span<const double> rewards,
                                std::span<const double> token_weights,
                                std::span<const std::int32_t> lengths,
                                std::span<const std::int32_t> group_offsets,
                                std::span<const CollapseClass> classes,
                                std::span<const VirtualDecision> decisions);

}  // namespace buttress
