// The estimators: one function each, in estimators.cc; ngrpo and avspo are in virtual_samples.cc.
// The function is named after the estimator, but for pass_k (BestAlone) and pass_at_k (SetsOfK).
// All share AdvantageFn's contract (advantage.h): the rewards of scorable completions are finite,
// and advantages are 0 before the call.
//
// Notation: group k has n completions with rewards r_i, their mean `mean` and standard deviation
// `std` (algorithm.std); T_i is the number of trained tokens of completion i, and N the number of
// completions of the batch. docs/theory.md derives the formulas.
#pragma once

#include <span>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// GRPO (DeepSeekMath, arXiv 2402.03300, section 4.1.2): A_i = (r_i - mean) / (std + eps).
Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// Dr. GRPO (arXiv 2503.20783): A_i = r_i - mean.
Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// RLOO (arXiv 2402.14740): A_i = r_i minus the mean of the others = n / (n - 1) (r_i - mean).
Status Rloo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// OPO (arXiv 2505.23585): A_i = r_i - sum_j T_j r_j / sum_j T_j, sums over the group: the baseline
// of least variance when the gradients of tokens are orthogonal. 0 for a group without tokens.
Status Opo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// REINFORCE++ (arXiv 2501.03262) with gamma = 1, where the return of each token is the reward of
// its completion: A_i = (r_i - m) / sqrt(v + 1e-8), m and v the mean and the variance over all
// tokens of the batch. algorithm.std: sample (verl), population (OpenRLHF) or none. Exactly 0 if
// all rewards of the batch are equal.
Status ReinforcePp(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out);

// REINFORCE++-baseline (arXiv 2501.03262): r_i - mean, then normalised over the batch as in
// ReinforcePp. A constant group gets the batch's shift, not 0.
Status ReinforcePpBaseline(const AdvantageInput& input, const AlgorithmConfig& options,
                           AdvantageOutput& out);

// GPG (arXiv 2504.02546).
//   gpg.form verl      A_i = (r_i - mean) N / (rewards of the batch that are not 0), which has a
//                      meaning where a reward of 0 says that nothing was earned
//   gpg.form official  A_i = (r_i - mean) / (share of the groups that are not constant + 1e-5)
Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// pass_k, Pass@k training (arXiv 2503.19595): the best completion of a group has (r_max - second best) /
// (std + eps), the others have 0. A tie at the top gives 0.
Status BestAlone(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// pass_at_k, Pass@k Training (arXiv 2508.10751 and its released code): the reward of k completions is 1 if one
// of them is correct, and a completion has the mean advantage of all sets of k among the n that
// hold it. With w wrong ones, q = C(w, k) / C(n, k) the share of sets that are all wrong, and
// sigma = sqrt(q (1 - q)) their deviation:
//   correct  A = q / (sigma + eps)
//   wrong    A = (q - C(w - 1, k - 1) / C(n - 1, k - 1)) / (sigma + eps)
//              = -(n - w) / w times that of a correct one
// k = 1 is GRPO with population std. A group with fewer than k wrong completions has 0: every k of
// it hold a correct one. algorithm.std: none leaves out the division; sample and population are the
// same. Correct by outcome, or by raw reward where outcomes are unknown; kInvalidArgument for a raw
// reward that is then neither 1 nor 0.
Status SetsOfK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// GDPO (arXiv 2601.05242): GRPO for each reward component, so that no component drowns another,
// summed with gdpo.weights, then normalised over the batch as in ReinforcePp. kInvalidArgument
// without components, or with another number of weights.
Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// NGRPO (arXiv 2509.18851): GRPO with one virtual reward ngrpo.max_reward in every group, so that
// an all-wrong group is pushed away from what it did. The released code drops all-correct groups;
// the formula gives them 0 where rewards reach max_reward.
Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// RL-ZVP, "No Prompt Left Behind" (arXiv 2509.21880): constant groups learn from the entropy of
// their own tokens. A mixed group has GRPO's advantages. In an all-correct group token t with
// entropy H_t (nats, without gradient) has A_t = alpha H_t, in an all-wrong one A_t = -alpha
// (max_s H_s - H_t), the maximum over the completion's own tokens. Entropies are known only where
// the tokens are run through the model, which is later; therefore a completion of a constant group
// gets an advantage of 0 and entropy_scale +-rl_zvp.alpha, and TokenAdvantages does the rest.
Status RlZvp(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// Advantages of the tokens of one completion. For an entropy_scale above 0, advantages[t] =
// advantage + entropy_scale * entropies[t]; below 0, advantage + entropy_scale * (max entropy -
// entropies[t]); for 0, advantage. Pure. REQUIRES: as many advantages as entropies.
void TokenAdvantages(double advantage, double entropy_scale, std::span<const double> entropies,
                     std::span<double> advantages);

// W-REINFORCE (arXiv 2506.01347): w_reinforce.positive_weight for a correct completion, -1 for a
// wrong one. By outcome, or by raw reward where outcomes are unknown; kInvalidArgument for a raw
// reward that is then neither 1 nor 0.
Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out);

// Reinforce-Rej (arXiv 2504.11343): A_i = r_i; constant groups have 0.
Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig& options,
                    AdvantageOutput& out);

// RAFT (arXiv 2304.06767, in the form that arXiv 2504.11343 compares): A_i = max(r_i, 0).
Status Raft(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// A-GRAE (arXiv 2602.05548v3): harder groups count more as the batch gets better, and correct
// completions count less while it is bad. g_i is GRPO's advantage, p the success rate of the group
// and omega that of the batch: shares of correct completions, or means of raw rewards in [0, 1]
// where outcomes are unknown.
//   a_grae.form paper     Eq 12: A_i = omega / 2 g_i / sqrt(p) + (1 - omega) / 2 g_i / sqrt(1 - p),
//                         A_i = g_i for p = 0 and p = 1
//                         Eq 13: times min(1, omega / a_grae.alpha) where A_i > 0
//   a_grae.form released  the authors' code: omega is the mean of the groups' rates, and Eq 12 is
//                         A_i = omega / 2 g_i / (sqrt(p) + eps)
//                               + (1 - omega) / 2 g_i / (1 - sqrt(p) + eps),
//                         whose second term grows without bound as p nears 1; then Eq 13
// Constant groups have 0 in both.
Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// AVSPO: virtual samples in constant groups (virtual_samples.h).
Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
