// The losses that exist: policy losses, importance corrections, KL estimators, aggregations. This
// file is free of torch; the functions are in policy_losses.h, correction.h and kl.h.
// docs/contributing.md says how to add a policy loss; docs/losses.md is generated from the tables.
//
// Of one token: A its advantage, lp its log-prob under the policy that is trained, old its log-prob
// under the policy that the ratio divides by, d = lp - old, rho = exp(d), T the tokens of its
// completion, el and eh clip_low and clip_high; sg[] has no gradient.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/config/run_config.h"

namespace buttress {

struct PolicyLossInfo {
  PolicyLoss loss;
  std::string_view formula;   // loss of a token
  std::string_view gradient;  // of the loss with respect to lp
  std::string_view paper;
  // Log-probs that it reads in addition to those of the trained policy: "old" (by
  // algorithm.old_policy the recorded ones, or the learner's own) and "sampler" (the recorded
  // ones).
  std::string_view reads;
  std::string_view settings;  // of run.algorithm that the loss reads

  std::string_view name() const { return ChoiceName(loss); }
};

// All policy losses, in the order of PolicyLoss.
std::span<const PolicyLossInfo> PolicyLosses();

// Whether a token with an advantage of 0 can have a gradient; if not, groups without advantages
// need not be run through the model.
bool ZeroAdvantageHasGradient(const AlgorithmConfig& algorithm);

// The tables of docs/losses.md.
std::string LossTables();

// One line for each policy loss: name, paper, formula.
std::string LossList();

}  // namespace buttress
