// Adaptive Virtual Sample Policy Optimization (arXiv 2605.21125): virtual rewards where groups are constant. One function per mode of
// algorithm.avspo.mode; no mode alters the collapse classes.
//
// Gate of both modes, from the brief: closed while ACR <= acr_threshold; open it has the confidence weight
//   w = min(1, slope (ACR - acr_threshold)),   A = (1 - w) A_real + w A_virtual.
// With w = 0 the advantages are bitwise A_real.
//
// noise     The brief's pseudo-code to the letter: A_real = (r - mean) / (std + 1e-8), sample std. ACR: share of the step's groups whose raw
//           rewards have a sample variance below variance_threshold. A_virtual: the same formula on r_i + noise_std z_i, z_i standard normal,
//           number `row of the batch` of the step's key; applied to every group. In a constant group A_virtual does not depend on noise_std
//           nor on whether the group is right or wrong, and its expected gradient is zero (algorithms.md 1.4).
// opposite  As the paper's released code has it, per group: A_real is grpo with algorithm.std and algorithm.eps. ACR: the step's, by range
//           test. A_virtual of an all-correct group: one virtual reward 0 joins the statistics, of an all-wrong group 1; (r - mean') /
//           (std' + 1e-6) with the sample std over G + 1. Other constant groups have no opposite and keep A_real.
// In both, groups with fewer than two scorable completions are in no rate and get no virtual samples.
#pragma once

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage.h"

namespace buttress {

// The confidence weight w in [0, 1]; 0 while the gate is closed. Pure.
double ConfidenceWeight(double acr, double acr_threshold, double slope);

// The mode that options.avspo.mode names; kInvalidArgument for another.
Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
