// Virtual rewards: values that join the statistics of a group although no completion earned them.
// They have no tokens and therefore no gradient. NGRPO adds one to every group; AVSPO
// has four modes.
//
// AVSPO, Adaptive Virtual Sample Policy Optimization (arXiv 2605.21125): virtual rewards where
// groups are constant. algorithm.avspo.mode chooses among four forms; none of them alters the
// collapse classes.
//
// While the gate of a mode is open, A = (1 - w) A_real + w A_virtual with a weight w of the mode;
// while it is closed, and for w = 0, A is bitwise A_real. A_real is GRPO with algorithm.std and
// algorithm.eps (mode noise apart). A group with fewer than two scorable completions gets no
// virtual samples and counts in no rate. docs/theory.md, section 4, derives the expected gradients.
//
// Virtual rewards are on the scale of outcomes: 1 right, 0 wrong. Mode noise apart, a completion of
// an all-correct group joins them with 1 + s and one of an all-wrong group with s, where s is what
// shaping gives it beyond the mean of its group. Whatever the shaping, the mean advantage of an
// all-correct group is then at least 0 and that of an all-wrong group at most 0.
//
// Where prompts name data sources, the modes opposite, ladder and prior have a gate for each
// source: its rate is the ACR of the source's own groups, in the step (prior: in the kRecentSteps
// steps before), its threshold follows that rate, and it decides about the source's groups alone. A
// source with fewer than kGateGroups comparable groups there (lib/rl/collapse/sources.h), and
// prompts that name none, read the rate and the threshold of all groups. Mode noise has one gate.
//
// noise     Gaussian noise, in no version of the paper; for comparison. A_real = (r - mean) /
//           (std + 1e-8) with sample std; rate: VarianceThresholdAcr; w = ConfidenceWeight(rate,
//           acr_threshold, slope). A_virtual is the same formula on r_i + noise_std z_i, where z_i
//           is number i of the step's key, standard normal, and i counts the scorable completions
//           of the batch; it applies to every group. In a constant group A_virtual depends neither
//           on noise_std nor on whether the group is right or wrong, so that its expected gradient
//           is zero.
// opposite  The released code, made per group. The rate is the step's ACR, w as above. One virtual
//           reward 0 joins the statistics of an all-correct group, one reward 1 those of an
//           all-wrong group; sample std over G + 1 values, eps 1e-6. Other constant groups have no
//           opposite and keep A_real.
// ladder    The text of the paper (Eq 9 - 14). A constant group gets K = max(1, min(G, ceil(G
//           ACR^alpha))) virtual rewards v_k = top (1 - (k - 1) / K), where top is 1 for
//           all-correct groups, `anchor` for all-wrong ones, and the raw reward for others, or
//           `anchor` if that is not above 0; w = strength. With `symmetric`, all-wrong groups get
//           v_k = k / K, all-correct groups 1 - k / K, and others none. The gate is open while the
//           step's ACR is above a threshold that follows it,
//             threshold += threshold_rate sign(J - J of the step before) (ACR - threshold),
//           within [threshold_min, threshold_max]; J is the mean raw reward of the step. The
//           threshold moves after the gate has used it, and GateState carries it.
// prior     Derived in docs/theory.md: kappa virtual rewards with the success rate m that the
//           prompt is expected to have, so that a prompt that is always solved stays silent and a
//           surprise speaks. m is that of the prompt's recent history of n completions, a moving
//           average over its groups with weight prior.decay. A prompt without a history takes m of
//           the batch's other groups, with n its own number of scorable completions. w =
//           strength_correct or strength_wrong, times ConfidenceWeight(acr_ema, acr_threshold,
//           slope), times n / (n + confidence_count). Applies to all-correct and all-wrong groups.
//           m and acr_ema come from earlier steps or other prompts, which makes the expected
//           gradient an ascent direction.
#pragma once

#include <span>
#include <string_view>

#include "lib/rl/advantage/advantage.h"

namespace buttress {

struct AvspoModeInfo {
  AvspoMode mode;
  AdvantageFn compute;
  std::string_view source;             // where the formula comes from
  std::string_view gate;               // when the mode acts, and on which groups
  std::string_view on_constant_group;  // advantages with the gate open
  std::string_view expected_gradient;  // of what the mode adds

  std::string_view name() const { return ChoiceName(mode); }
};

// All modes, in the order of AvspoMode.
std::span<const AvspoModeInfo> AvspoModes();

// min(1, slope * (acr - acr_threshold)) in [0, 1]; 0 for acr <= acr_threshold. Pure.
double ConfidenceWeight(double acr, double acr_threshold, double slope);

// NGRPO (arXiv 2509.18851): GRPO with one virtual reward ngrpo.max_reward in every group, so that
// an all-wrong group is pushed away from what it did. The released code drops all-correct groups;
// the formula gives them 0 where rewards reach max_reward.
Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// AVSPO in the mode of algorithm.avspo.mode.
Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
