#include "lib/rl/advantage/advantage.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/rl/advantage/check_batch.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/scorable_rows.h"

namespace buttress {
namespace {

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
    EstimatorInfo{Estimator::kPassK, PassK,
                  "(r_max - second best) / (std + eps) for the single best, else 0",
                  "arXiv 2503.19595", "exactly 0"},
    EstimatorInfo{Estimator::kPassAtK, PassAtKAdvantage,
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

// The counts of the step come with the batch, so that the gates of all ranks and of a replay see
// the same; counts that differ are those of another step.
Status CheckCounts(const AdvantageInput& input) {
  CollapseCounts counts;
  for (const CollapseClass collapse : input.classes) counts.Add(collapse);
  if (counts == input.collapse.step) return OkStatus();
  return InvalidArgument(
      fmt::format("collapse.step counts {} constant of {} groups; the batch has {} of {}",
                  input.collapse.step.constant(), input.collapse.step.groups, counts.constant(),
                  counts.groups));
}

}  // namespace

std::span<const EstimatorInfo> Estimators() { return kEstimators; }

const EstimatorInfo& InfoOf(Estimator estimator) {
  return kEstimators[static_cast<std::size_t>(estimator)];
}

Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input,
                                          const AlgorithmConfig& options) {
  BUTTRESS_RETURN_IF_ERROR(CheckBatch(input));
  BUTTRESS_RETURN_IF_ERROR(CheckCounts(input));
  AdvantageOutput out;
  out.decisions.resize(input.classes.size());
  out.next_gate = input.gate;
  const ScorableRows scorable(input);
  out.advantages.assign(scorable.input().rewards.size(), 0.0);
  const EstimatorInfo& info = InfoOf(options.advantage);
  BUTTRESS_RETURN_IF_ERROR(info.compute(scorable.input(), options, out));
  out.advantages = scorable.Spread(out.advantages);
  if (!out.entropy_scale.empty()) out.entropy_scale = scorable.Spread(out.entropy_scale);
  BUTTRESS_RETURN_IF_ERROR(CheckAdvantages(out, info.name()));
  return out;
}

RandomKey AdvantageKey(std::uint64_t run_seed, std::int64_t step) {
  return {MixSeed(run_seed, HashText("advantage")), static_cast<std::uint64_t>(step)};
}

}  // namespace buttress
