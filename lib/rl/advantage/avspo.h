// Adaptive Virtual Sample Policy Optimization (arXiv 2605.21125): virtual rewards where groups are
// constant. One function per mode of algorithm.avspo.mode, each in a file of its name; AvspoModes
// lists them. No mode alters the collapse classes.
//
// While a mode's gate is open, A = (1 - w) A_real + w A_virtual with a weight w of its own; while
// it is closed, and with w = 0, A is bitwise A_real. A_real is grpo with algorithm.std and
// algorithm.eps (mode noise apart). Groups with fewer than two scorable completions get no virtual
// samples and are in no rate.
//
// noise     The brief's pseudo-code to the letter: A_real = (r - mean) / (std + 1e-8), sample std; rate: VarianceThresholdAcr;
//           w = ConfidenceWeight(rate, acr_threshold, slope). A_virtual: the same formula on r_i + noise_std z_i, z_i standard normal, number i
//           of the step's key, i counting the scorable completions of the batch; applied to every group. In a constant group A_virtual does not
//           depend on noise_std nor on whether the group is right or wrong: its expected gradient is zero (algorithms.md 1.4).
// opposite  As the released code has it, but per group: rate the step's ACR, w as above.
//           All-correct: one virtual reward 0 joins the statistics, all-wrong: one 1; sample std
//           over G + 1, eps 1e-6. Other constant groups have no opposite and keep A_real.
// ladder    As the paper's text has it (WWW Eq 9 - 14): constant groups get K = max(1, min(G, ceil(G ACR^alpha))) virtual rewards
//           v_k = top (1 - (k - 1) / K), top the group's largest reward, or `anchor` where that is not above 0; w = strength. `symmetric`: v_k = k / K
//           for all-wrong and 1 - k / K for all-correct groups, no others. Gate: the step's ACR above a threshold that follows it,
//             threshold += threshold_rate * sign(J - J of the step before) * (ACR - threshold),
//             within [threshold_min, threshold_max],
//           J the mean raw reward of the step; it moves after the step's gate has used it, and
//           GateState carries it.
// prior     Derived here (algorithms.md 1.5 c): kappa virtual rewards with success rate m = the prompt's history, so that a prompt that is always
//           solved stays silent and a surprise speaks. w = strength_correct or strength_wrong, times ConfidenceWeight(acr_ema, acr_threshold,
//           slope), times n / (n + confidence_count) for a history of n completions. All-correct and all-wrong groups only. m and acr_ema are of
//           earlier steps: that is what makes the expected gradient an ascent direction.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

enum class StdKind : std::uint8_t;
struct VirtualRewards;

struct AvspoMode {
  std::string_view name;
  AdvantageFn compute;
  std::string_view source;             // where its formula comes from
  std::string_view gate;               // when it acts, on which groups, with what weight
  std::string_view on_constant_group;  // with the gate open
  std::string_view expected_gradient;  // of what it adds
};

std::span<const AvspoMode> AvspoModes();

// The confidence weight min(1, slope * (acr - acr_threshold)) in [0, 1]; 0 while acr <=
// acr_threshold. Pure.
double ConfidenceWeight(double acr, double acr_threshold, double slope);

// Makes group k's advantages (1 - weight) * themselves + weight * those among its rewards and
// virtual ones, and records the decision.
void InjectVirtual(const AdvantageInput& input, std::size_t k,
                   const VirtualRewards& virtual_rewards, StdKind kind, double eps, double weight,
                   AdvantageOutput& out);

// The mode that options.avspo.mode names; kInvalidArgument for another.
Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

Status AvspoNoise(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out);
Status AvspoOpposite(const AdvantageInput& input, const AlgorithmConfig& options,
                     AdvantageOutput& out);
Status AvspoLadder(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out);
Status AvspoPrior(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out);

}  // namespace buttress
