// The estimators, each with its formula and paper, and their table. ngrpo and avspo are in
// virtual_samples.cc. A function is named after its estimator, but for pass_k (BestAlone) and
// pass_at_k (SetsOfK).
//
// Notation: group k has n completions with rewards r_i, their mean `mean` and standard deviation
// `std` (algorithm.std); T_i is the number of trained tokens of completion i, and N the number of
// completions of the batch. docs/theory.md derives the formulas.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/report/check.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/advantage/virtual_samples.h"
#include "lib/rl/statistics.h"

namespace buttress {
namespace {

// Calls visit(group) for each group whose rewards differ.
template <class Visit>
void ForEachUnequalGroup(const AdvantageInput& input, Visit visit) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const ScorableGroup group = input.scorable_group(k);
    if (!AllEqual(group.rewards)) visit(group);
  }
}

// Makes values[i] = (values[i] - m) / sqrt(v + 1e-8), or values[i] - m for StdKind::kNone, where
// scorable completion i counts T_i times:
//   m = sum_i T_i x_i / sum_i T_i
//   v = sum_i T_i (x_i - m)^2 / (sum_i T_i - 1), for kPopulation / sum_i T_i
// This is verl's masked_whiten over the tokens of a batch. All values become exactly 0 if those
// with tokens are equal. A value without tokens is in neither statistic.
void WhitenTokens(const AdvantageInput& input, StdKind kind, std::span<double> values) {
  constexpr double kVarianceEps = 1e-8;
  const auto counts = [&](std::size_t i) { return input.scorable(i) && input.lengths[i] != 0; };
  double tokens = 0;
  double sum = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!counts(i)) continue;
    tokens += input.lengths[i];
    sum += input.lengths[i] * values[i];
    lowest = std::min(lowest, values[i]);
    highest = std::max(highest, values[i]);
  }
  if (lowest >= highest) return std::ranges::fill(values, 0.0), void();
  const double mean = sum / tokens;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (counts(i)) squares += input.lengths[i] * (values[i] - mean) * (values[i] - mean);
  const double variance = squares / (kind == StdKind::kSample ? tokens - 1 : tokens);
  const double divisor = kind == StdKind::kNone ? 1.0 : std::sqrt(variance + kVarianceEps);
  for (double& value : values) value = (value - mean) / divisor;
}

std::size_t CountScorable(const AdvantageInput& input) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < input.rewards.size(); ++i) count += input.scorable(i) ? 1 : 0;
  return count;
}

// N / rewards that are not 0. Without such a reward there is no advantage to scale.
double VerlFactor(const AdvantageInput& input) {
  double nonzero = 0;
  for (std::size_t i = 0; i < input.rewards.size(); ++i)
    nonzero += input.scorable(i) && input.rewards[i] != 0 ? 1 : 0;
  return nonzero == 0 ? 0.0 : static_cast<double>(CountScorable(input)) / nonzero;
}

// 1 / (share of mixed groups + 1e-5), of the drawn groups with two rewards or more.
double OfficialFactor(const AdvantageInput& input) {
  double groups = static_cast<double>(input.left_out.constant() + input.left_out.mixed);
  auto mixed = static_cast<double>(input.left_out.mixed);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const ScorableGroup group = input.scorable_group(k);
    groups += group.size() >= 2 ? 1 : 0;
    mixed += AllEqual(group.rewards) ? 0 : 1;
  }
  return groups == 0 ? 0.0 : 1.0 / (mixed / groups + 1e-5);
}

Status CheckOutcomes(const AdvantageInput& input, std::string_view estimator) {
  for (std::size_t i = 0; input.outcomes.empty() && i < input.raw_rewards.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (!input.scorable(i) || reward == 1 || reward == 0) continue;
    return InvalidArgument(
        fmt::format("{} needs outcomes, or rewards of 1 and 0; completion {} of the batch has raw "
                    "reward {} and no outcome",
                    estimator, i, reward));
  }
  return OkStatus();
}

bool IsCorrect(const AdvantageInput& input, std::size_t row) {
  return input.outcomes.empty() ? input.raw_rewards[row] == 1
                                : input.outcomes[row] == Outcome::kCorrect;
}

// log of C(wrong, k) / C(n, k), the chance that k of n completions are all wrong, as a sum of logs
// that neither overflows nor cancels. REQUIRES: k <= wrong < n.
double LogAllWrong(std::int64_t wrong, std::int64_t n, std::int64_t k) {
  const auto correct = static_cast<double>(n - wrong);
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += std::log1p(-correct / static_cast<double>(n - i));
  return sum;
}

// The rates of the batch count the groups that were left out, which are all-correct or all-wrong
// and, as far as is known, of the mean size of the others.
struct SuccessRates {
  std::vector<double> of_group;  // [K]; 0 for a group without scorable completions
  double of_batch = 0;           // over completions
  double mean_of_groups = 0;     // over groups that have scorable completions
};

Status CheckRates(const AdvantageInput& input) {
  for (std::size_t i = 0; input.outcomes.empty() && i < input.raw_rewards.size(); ++i) {
    const double reward = input.raw_rewards[i];
    if (!input.scorable(i) || (reward >= 0 && reward <= 1)) continue;
    return InvalidArgument(
        fmt::format("a_grae needs success rates: outcomes, or rewards in [0, 1]; completion {} of "
                    "the batch has raw reward {} and no outcome",
                    i, reward));
  }
  return OkStatus();
}

SuccessRates ComputeRates(const AdvantageInput& input) {
  SuccessRates rates;
  rates.of_group.resize(input.groups());
  const auto left_correct = static_cast<double>(input.left_out.all_correct);
  const double left_out = left_correct + static_cast<double>(input.left_out.all_wrong);
  double all_successes = 0, completions = 0, groups = 0;
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const ScorableGroup group = input.scorable_group(k);
    if (group.rows.empty()) continue;
    double successes = 0;
    for (const std::size_t row : group.rows) {
      successes += input.outcomes.empty()  ? input.raw_rewards[row]
                   : IsCorrect(input, row) ? 1.0
                                           : 0.0;
    }
    rates.of_group[k] = successes / group.size();
    rates.mean_of_groups += rates.of_group[k];
    all_successes += successes;
    completions += group.size();
    groups += 1;
  }
  if (groups == 0) return rates;
  rates.of_batch = (all_successes / (completions / groups) + left_correct) / (groups + left_out);
  rates.mean_of_groups = (rates.mean_of_groups + left_correct) / (groups + left_out);
  return rates;
}

// A_i / g_i of Eq 12 of A-GRAE.
double PaperFactor(double p, double omega) {
  if (p <= 0 || p >= 1) return 1.0;
  return omega / 2 / std::sqrt(p) + (1 - omega) / 2 / std::sqrt(1 - p);
}

double ReleasedFactor(double p, double omega, double eps) {
  return omega / 2 / (std::sqrt(p) + eps) + (1 - omega) / 2 / (1 - std::sqrt(p) + eps);
}

// Dr. GRPO (arXiv 2503.20783): A_i = r_i - mean.
Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    const double mean = Mean(group.rewards);
    group.Set(out.advantages, [&](double reward) { return reward - mean; });
  });
  return OkStatus();
}

// RLOO (arXiv 2402.14740): A_i = r_i minus the mean of the others = n / (n - 1) (r_i - mean).
Status Rloo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    const double mean = Mean(group.rewards);
    const double n = group.size();
    group.Set(out.advantages, [&](double reward) { return n / (n - 1) * (reward - mean); });
  });
  return OkStatus();
}

// OPO (arXiv 2505.23585): A_i = r_i - sum_j T_j r_j / sum_j T_j, sums over the group: the baseline
// of least variance when the gradients of tokens are orthogonal. 0 for a group without tokens.
Status Opo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  // The weighted mean of equal rewards may differ from their value by rounding.
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    double tokens = 0;
    double token_rewards = 0;
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      tokens += input.lengths[group.rows[i]];
      token_rewards += input.lengths[group.rows[i]] * group.rewards[i];
    }
    if (tokens == 0) return;
    group.Set(out.advantages, [&](double reward) { return reward - token_rewards / tokens; });
  });
  return OkStatus();
}

// REINFORCE++ (arXiv 2501.03262) with gamma = 1, where the return of each token is the reward of
// its completion: A_i = (r_i - m) / sqrt(v + 1e-8), m and v the mean and the variance over all
// tokens of the batch. algorithm.std: sample (verl), population (OpenRLHF) or none. Exactly 0 if
// all rewards of the batch are equal.
Status ReinforcePp(const AdvantageInput& input, const AlgorithmConfig& options,
                   AdvantageOutput& out) {
  std::ranges::copy(input.rewards, out.advantages.begin());
  WhitenTokens(input, options.std, out.advantages);
  return OkStatus();
}

// REINFORCE++-baseline (arXiv 2501.03262): r_i - mean, then normalised over the batch as in
// ReinforcePp. A constant group gets the batch's shift, not 0.
Status ReinforcePpBaseline(const AdvantageInput& input, const AlgorithmConfig& options,
                           AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  WhitenTokens(input, options.std, out.advantages);
  return OkStatus();
}

// GPG (arXiv 2504.02546).
//   gpg.form verl      A_i = (r_i - mean) N / (rewards of the batch that are not 0), which has a
//                      meaning where a reward of 0 says that nothing was earned
//   gpg.form official  A_i = (r_i - mean) / (share of the groups that are not constant + 1e-5)
Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const double factor =
      options.gpg.form == GpgForm::kVerl ? VerlFactor(input) : OfficialFactor(input);
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  for (double& advantage : out.advantages) advantage *= factor;  // (r_i - mean) * factor
  return OkStatus();
}

// pass_k, Pass@k training (arXiv 2503.19595): the best completion of a group has (r_max - second
// best) / (std + eps), the others have 0. A tie at the top gives 0.
Status BestAlone(const AdvantageInput& input, const AlgorithmConfig& options,
                 AdvantageOutput& out) {
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    const std::vector<double>& rewards = group.rewards;
    const auto best = static_cast<std::size_t>(std::ranges::max_element(rewards) - rewards.begin());
    double second = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      if (i != best) second = std::max(second, rewards[i]);
    }
    out.advantages[group.rows[best]] =
        (rewards[best] - second) /
        StdPlusEps(SumSquares(rewards, Mean(rewards)), group.size(), options.std, options.eps);
  });
  return OkStatus();
}

// pass_at_k, Pass@k Training (arXiv 2508.10751 and its released code): the reward of k completions
// is 1 if one of them is correct, and a completion has the mean advantage of all sets of k among
// the n that hold it. With w wrong ones, q = C(w, k) / C(n, k) the share of sets that are all
// wrong, and sigma = sqrt(q (1 - q)) their deviation:
//   correct  A = q / (sigma + eps)
//   wrong    A = (q - C(w - 1, k - 1) / C(n - 1, k - 1)) / (sigma + eps)
//              = -(n - w) / w times that of a correct one
// k = 1 is GRPO with population std. A group with fewer than k wrong completions has 0: every k of
// it hold a correct one. algorithm.std: none leaves out the division; sample and population are the
// same. Correct by outcome, or by raw reward where outcomes are unknown; kInvalidArgument for a raw
// reward that is then neither 1 nor 0.
Status SetsOfK(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckOutcomes(input, "pass_at_k"));
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (input.classes[k] != CollapseClass::kMixed) continue;
    const ScorableGroup group = input.scorable_group(k);
    const auto n = std::ssize(group.rows);
    const auto wrong =
        std::ranges::count_if(group.rows, [&](std::size_t row) { return !IsCorrect(input, row); });
    if (wrong < options.pass_at_k.k || wrong == n) continue;
    const double log_wrong = LogAllWrong(wrong, n, options.pass_at_k.k);
    const double root = std::exp(log_wrong / 2);  // of q, which may be below every double
    if (root == 0) continue;
    const double sigma = root * std::sqrt(-std::expm1(log_wrong));
    const double divisor = options.std == StdKind::kNone ? 1.0 : sigma + options.eps;
    const double positive = root * (root / divisor);
    const double negative = -positive * static_cast<double>(n - wrong) / static_cast<double>(wrong);
    for (const std::size_t row : group.rows)
      out.advantages[row] = IsCorrect(input, row) ? positive : negative;
  }
  return OkStatus();
}

// GDPO (arXiv 2601.05242): GRPO for each reward component, so that no component drowns another,
// summed with gdpo.weights, then normalised over the batch as in ReinforcePp. kInvalidArgument
// without components, or with another number of weights.
Status Gdpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const std::size_t rows = input.rewards.size();
  if (CountScorable(input) == 0) return OkStatus();
  if (input.components.empty())
    return InvalidArgument("gdpo needs the components of the reward, which has one part; use grpo");
  const std::size_t components = input.components.size() / rows;
  const std::vector<double>& weights = options.gdpo.weights;
  if (!weights.empty() && weights.size() != components) {
    return InvalidArgument(
        fmt::format("algorithm.gdpo.weights has {} weights, the reward has {} components; give one "
                    "weight each, or none",
                    weights.size(), components));
  }
  AdvantageInput of_component = input;
  AdvantageOutput normalised;
  for (std::size_t c = 0; c < components; ++c) {
    for (std::size_t i = 0; i < rows; ++i)
      of_component.rewards[i] = input.components[i * components + c];
    normalised.advantages.assign(rows, 0.0);
    BUTTRESS_RETURN_IF_ERROR(Grpo(of_component, options, normalised));
    const double weight = weights.empty() ? 1.0 : weights[c];
    for (std::size_t i = 0; i < rows; ++i) out.advantages[i] += weight * normalised.advantages[i];
  }
  WhitenTokens(input, StdKind::kSample, out.advantages);
  return OkStatus();
}

// RL-ZVP, "No Prompt Left Behind" (arXiv 2509.21880): constant groups learn from the entropy of
// their own tokens. A mixed group has GRPO's advantages. In an all-correct group token t with
// entropy H_t (nats, without gradient) has A_t = alpha H_t, in an all-wrong one A_t = -alpha
// (max_s H_s - H_t), the maximum over the completion's own tokens. Entropies are known only where
// the tokens are run through the model, which is later; therefore a completion of a constant group
// gets an advantage of 0 and entropy_scale +-rl_zvp.alpha, and TokenAdvantages does the rest.
Status RlZvp(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  out.entropy_scale.assign(out.advantages.size(), 0.0);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const auto scales = GroupRows(std::span<double>(out.entropy_scale), input.group_offsets, k);
    if (input.classes[k] == CollapseClass::kAllCorrect)
      std::ranges::fill(scales, options.rl_zvp.alpha);
    if (input.classes[k] == CollapseClass::kAllWrong)
      std::ranges::fill(scales, -options.rl_zvp.alpha);
  }
  return OkStatus();
}

// W-REINFORCE (arXiv 2506.01347): w_reinforce.positive_weight for a correct completion, -1 for a
// wrong one. By outcome, or by raw reward where outcomes are unknown; kInvalidArgument for a raw
// reward that is then neither 1 nor 0.
Status WReinforce(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckOutcomes(input, "w_reinforce"));
  for (std::size_t i = 0; i < out.advantages.size(); ++i)
    out.advantages[i] = IsCorrect(input, i) ? options.w_reinforce.positive_weight : -1.0;
  return OkStatus();
}

// Reinforce-Rej (arXiv 2504.11343): A_i = r_i; constant groups have 0.
Status ReinforceRej(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    group.Set(out.advantages, [](double reward) { return reward; });
  });
  return OkStatus();
}

// RAFT (arXiv 2304.06767, in the form that arXiv 2504.11343 compares): A_i = max(r_i, 0).
Status Raft(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  for (std::size_t i = 0; i < out.advantages.size(); ++i)
    out.advantages[i] = std::max(input.rewards[i], 0.0);
  return OkStatus();
}

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
Status AGrae(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const bool released = options.a_grae.form == AGraeForm::kReleased;
  BUTTRESS_RETURN_IF_ERROR(CheckRates(input));
  const SuccessRates rates = ComputeRates(input);
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double omega = released ? rates.mean_of_groups : rates.of_batch;
  const double suppression = std::min(1.0, omega / options.a_grae.alpha);  // Eq 13
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const double p = rates.of_group[k];
    const double factor = released ? ReleasedFactor(p, omega, options.eps) : PaperFactor(p, omega);
    for (double& advantage : GroupRows(std::span(out.advantages), input.group_offsets, k)) {
      if (advantage > 0) advantage *= factor * suppression;
      if (advantage < 0) advantage *= factor;
    }
  }
  return OkStatus();
}

// An array and not registration from each file: the list can be read, and a static library's linker
// drops objects that nobody names.
constexpr std::array kEstimators = {
    EstimatorInfo{Estimator::kGrpo, Grpo, "(r - mean) / (std + eps)", "arXiv 2402.03300",
                  "exactly 0"},
    EstimatorInfo{Estimator::kDrGrpo, DrGrpo, "r - mean", "arXiv 2503.20783", "exactly 0"},
    EstimatorInfo{Estimator::kRloo, Rloo, "r - mean of the others = n / (n - 1) (r - mean)",
                  "arXiv 2402.14740", "exactly 0"},
    EstimatorInfo{Estimator::kOpo, Opo, "r - mean per token of the group", "arXiv 2505.23585",
                  "exactly 0", /*reads_lengths=*/true},
    EstimatorInfo{Estimator::kReinforcePp, ReinforcePp,
                  "(r - m) / sqrt(v + 1e-8), m and v over all tokens of the batch (gamma 1)",
                  "arXiv 2501.03262",
                  "its reward against the batch's mean; 0 if all rewards of the batch are equal",
                  /*reads_lengths=*/true},
    EstimatorInfo{Estimator::kReinforcePpBaseline, ReinforcePpBaseline,
                  "r - mean, then (x - m) / sqrt(v + 1e-8) over all tokens of the batch",
                  "arXiv 2501.03262",
                  "-m / sqrt(v + 1e-8): the batch's shift, the same for every constant group",
                  /*reads_lengths=*/true},
    EstimatorInfo{Estimator::kGpg, Gpg,
                  "verl: (r - mean) N / nonzero rewards; official: (r - mean) / (share of mixed "
                  "groups + 1e-5)",
                  "arXiv 2504.02546", "exactly 0"},
    EstimatorInfo{Estimator::kPassK, BestAlone,
                  "(r_max - second best) / (std + eps) for the single best, else 0",
                  "arXiv 2503.19595", "exactly 0"},
    EstimatorInfo{Estimator::kPassAtK, SetsOfK,
                  "q / (sigma + eps) if correct, -(correct / wrong) of that if wrong; q = C(wrong, "
                  "k) / C(n, k), sigma = sqrt(q (1 - q))",
                  "arXiv 2508.10751", "exactly 0"},
    EstimatorInfo{Estimator::kGdpo, Gdpo,
                  "sum over components of weight * grpo, then (x - m) / sqrt(v + 1e-8) over all "
                  "tokens of the batch",
                  "arXiv 2601.05242",
                  "-m / sqrt(v + 1e-8) if all components are constant: the batch's shift",
                  /*reads_lengths=*/true,
                  /*reads_components=*/true},
    EstimatorInfo{Estimator::kNgrpo, Ngrpo,
                  "grpo with one virtual reward of max_reward in every group", "arXiv 2509.18851",
                  "exactly 0 at max_reward; below it negative, -1 / sqrt(G + 1) for sample std"},
    EstimatorInfo{
        Estimator::kRlZvp, RlZvp,
        "mixed: grpo; constant, per token: alpha H if correct, -alpha (max H - H) if wrong",
        "arXiv 2509.21880", "a scale of +-alpha for the entropy of its tokens"},
    EstimatorInfo{Estimator::kWReinforce, WReinforce, "positive_weight if correct, -1 if wrong",
                  "arXiv 2506.01347", "the same as in any group: positive_weight or -1"},
    EstimatorInfo{Estimator::kReinforceRej, ReinforceRej, "r, constant groups left out",
                  "arXiv 2504.11343", "exactly 0"},
    EstimatorInfo{Estimator::kRaft, Raft, "max(r, 0)", "arXiv 2304.06767", "its reward"},
    EstimatorInfo{Estimator::kAGrae, AGrae,
                  "grpo * [omega / (2 sqrt p) + (1 - omega) / (2 sqrt(1 - p))], positives * min(1, "
                  "omega / alpha)",
                  "arXiv 2602.05548", "exactly 0"},
    EstimatorInfo{
        Estimator::kAvspo, Avspo,
        "(1 - w) grpo + w grpo among virtual rewards; modes noise, opposite, ladder, prior",
        "arXiv 2605.21125", "by mode, see there; exactly 0 while the gate is closed"},
};

// InfoOf() indexes the table.
static_assert(kEstimators.size() == std::size(kChoices<Estimator>) &&
              std::ranges::equal(kEstimators, kChoices<Estimator>, {}, &EstimatorInfo::estimator,
                                 &ChoiceRow<Estimator>::value));

}  // namespace

Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  ForEachUnequalGroup(input, [&](const ScorableGroup& group) {
    const double mean = Mean(group.rewards);
    const double std_eps =
        StdPlusEps(SumSquares(group.rewards, mean), group.size(), options.std, options.eps);
    group.Set(out.advantages, [&](double reward) { return (reward - mean) / std_eps; });
  });
  return OkStatus();
}

void TokenAdvantages(double advantage, double entropy_scale, std::span<const double> entropies,
                     std::span<double> advantages) {
  BUTTRESS_CHECK(entropies.size() == advantages.size(), "one advantage per token");
  const double highest = entropies.empty() ? 0.0 : *std::ranges::max_element(entropies);
  for (std::size_t t = 0; t < entropies.size(); ++t) {
    const double nats = entropy_scale < 0 ? highest - entropies[t] : entropies[t];
    advantages[t] = advantage + entropy_scale * nats;
  }
}

std::span<const EstimatorInfo> Estimators() { return kEstimators; }

const EstimatorInfo& InfoOf(Estimator estimator) {
  return kEstimators[static_cast<std::size_t>(estimator)];
}

}  // namespace buttress
