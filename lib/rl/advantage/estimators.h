// The estimators that have no page of their own: one function each, in a file named after its
// family. All share AdvantageFn's contract (advantage.h): rewards r_i finite, completions scorable,
// advantages filled with 0 before the call.
//
// Group k has n completions with rewards r_i; mean and std are the group's; T_i is the number of
// trained tokens of completion i.
#pragma once

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// GRPO (arXiv 2402.03300, section 4.1.2): A_i = (r_i - mean) / (std + eps), std by algorithm.std.
Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// Dr. GRPO (arXiv 2503.20783): A_i = r_i - mean.
Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// RLOO (arXiv 2402.14740): A_i = r_i minus the mean of the others = n / (n - 1) (r_i - mean).
Status Rloo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// OPO (arXiv 2505.23585): A_i = r_i - sum_j T_j r_j / sum_j T_j, sums over the group; 0 for a group
// without tokens.
Status Opo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// REINFORCE++ (arXiv 2501.03262) with gamma = 1, where each token's return is its completion's
// reward: A_i = (r_i - m) / sqrt(v + 1e-8), m and v the mean and the variance of all tokens of the
// batch. algorithm.std: sample (verl), population (OpenRLHF), none. Exactly 0 if all rewards of the
// batch are equal.
Status ReinforcePp(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out);

// REINFORCE++-baseline (the same paper): r_i - mean, then over the batch as above. A constant group
// gets the batch's shift, not 0.
Status ReinforcePpBaseline(const AdvantageInput& input, const AlgorithmConfig& options,
                           AdvantageOutput& out);

// GPG (arXiv 2504.02546). gpg.form verl: A_i = (r_i - mean) * N / (rewards of the batch that are
// not 0), which means something for rewards that are 0 where nothing was earned. official: A_i =
// (r_i - mean) / (share + 1e-5), share of the groups that are not constant.
Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// Pass@k training (arXiv 2503.19595): the best completion of a group has (r_max - second best) /
// (std + eps), the others 0; a tie at the top gives 0. std by algorithm.std.
Status PassK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// GDPO (arXiv 2601.05242): GRPO for each reward component, summed with gdpo.weights, then over all
// tokens of the batch as REINFORCE++ does. kInvalidArgument without components, or with another
// number of weights.
Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// NGRPO (arXiv 2509.18851): GRPO with one virtual reward ngrpo.max_reward in every group. The
// released code drops all-correct groups; with rewards of max_reward the formula gives them 0.
Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// W-REINFORCE (arXiv 2506.01347): w_reinforce.positive_weight for a correct completion, -1 for a
// wrong one. By outcome, or by reward where outcomes are unknown; kInvalidArgument for a reward
// that is then neither 1 nor 0.
Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out);

// Reinforce-Rej (arXiv 2504.11343): A_i = r_i, constant groups 0.
Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig& options,
                    AdvantageOutput& out);

// RAFT (arXiv 2304.06767, as arXiv 2504.11343 compares it): A_i = max(r_i, 0).
Status Raft(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
