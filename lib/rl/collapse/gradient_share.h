// The share of the gradient that comes from groups whose raw rewards are constant, by source. Such
// groups contribute nothing under GRPO; what they contribute comes from virtual samples, from
// shaping, from the estimator, or from the KL term.
#pragma once

#include <cstdint>
#include <span>

#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Sums over tokens of |weight * q|, where q is the gradient of the loss with respect to the token's
// log-prob.
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
