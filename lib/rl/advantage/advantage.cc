#include "lib/rl/advantage/advantage.h"

#include <array>
#include <string>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/a_grae.h"
#include "lib/rl/advantage/avspo.h"
#include "lib/rl/advantage/check_batch.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/rl_zvp.h"
#include "lib/rl/advantage/scorable_rows.h"

namespace buttress {
namespace {

// The whole registry. An array and not registration from each file: it can be read, and a static
// library's linker drops objects that nobody names.
constexpr std::array kEstimators = {
    AdvantageEstimator{"grpo", Grpo, "(r - mean) / (std + eps)", "arXiv 2402.03300", "exactly 0"},
    AdvantageEstimator{"dr_grpo", DrGrpo, "r - mean", "arXiv 2503.20783", "exactly 0"},
    AdvantageEstimator{"rloo", Rloo, "r - mean of the others = n / (n - 1) (r - mean)",
                       "arXiv 2402.14740", "exactly 0"},
    AdvantageEstimator{"opo", Opo, "r - mean per token of the group", "arXiv 2505.23585",
                       "exactly 0", /*reads_lengths=*/true},
    AdvantageEstimator{
        "reinforce_pp", ReinforcePp,
        "(r - m) / sqrt(v + 1e-8), m and v over all tokens of the batch (gamma 1)",
        "arXiv 2501.03262",
        "its reward against the batch's mean; 0 if all rewards of the batch are equal",
        /*reads_lengths=*/true},
    AdvantageEstimator{"reinforce_pp_baseline", ReinforcePpBaseline,
                       "r - mean, then (x - m) / sqrt(v + 1e-8) over all tokens of the batch",
                       "arXiv 2501.03262",
                       "-m / sqrt(v + 1e-8): the batch's shift, the same for every constant group",
                       /*reads_lengths=*/true},
    AdvantageEstimator{"gpg", Gpg,
                       "verl: (r - mean) N / nonzero rewards; official: (r - mean) / (share of "
                       "mixed groups + 1e-5)",
                       "arXiv 2504.02546", "exactly 0"},
    AdvantageEstimator{"pass_k", PassK,
                       "(r_max - second best) / (std + eps) for the single best, else 0",
                       "arXiv 2503.19595", "exactly 0"},
    AdvantageEstimator{"gdpo", Gdpo,
                       "sum over components of weight * grpo, then (x - m) / sqrt(v + 1e-8) over "
                       "all tokens of the batch",
                       "arXiv 2601.05242",
                       "-m / sqrt(v + 1e-8) if all components are constant: the batch's shift",
                       /*reads_lengths=*/true,
                       /*reads_components=*/true},
    AdvantageEstimator{
        "ngrpo", Ngrpo, "grpo with one virtual reward of max_reward in every group",
        "arXiv 2509.18851",
        "exactly 0 at max_reward; below it negative, -1 / sqrt(G + 1) for sample std"},
    AdvantageEstimator{
        "rl_zvp", RlZvp,
        "mixed: grpo; constant, per token: alpha H if correct, -alpha (max H - H) if wrong",
        "arXiv 2509.21880", "a scale of +-alpha for the entropy of its tokens"},
    AdvantageEstimator{"w_reinforce", WReinforce, "positive_weight if correct, -1 if wrong",
                       "arXiv 2506.01347", "the same as in any group: positive_weight or -1"},
    AdvantageEstimator{"reinforce_rej", ReinforceRej, "r, constant groups left out",
                       "arXiv 2504.11343", "exactly 0"},
    AdvantageEstimator{"raft", Raft, "max(r, 0)", "arXiv 2304.06767", "its reward"},
    AdvantageEstimator{"a_grae", AGrae,
                       "grpo * [omega / (2 sqrt p) + (1 - omega) / (2 sqrt(1 - p))], positives * "
                       "min(1, omega / alpha)",
                       "arXiv 2602.05548", "exactly 0"},
    AdvantageEstimator{
        "avspo", Avspo,
        "(1 - w) grpo + w grpo among virtual rewards; modes noise, opposite, ladder, prior",
        "arXiv 2605.21125", "by mode, see there; exactly 0 while the gate is closed"},
};

// Class of each group. The step's counts come with the batch, because gates of all ranks and of a
// replay must see the same; a recount that differs means that the rewards or the counts are not
// those of this step.
Result<std::vector<CollapseClass>> Classify(const AdvantageInput& input, bool all_scorable) {
  std::vector<CollapseClass> classes(input.groups());
  if (all_scorable) {
    ClassifyScorableGroups(input.raw_rewards, input.outcomes, input.group_offsets, classes);
  } else {
    for (std::size_t k = 0; k < classes.size(); ++k) {
      classes[k] = ClassifyGroup(GroupRows(input.raw_rewards, input.group_offsets, k),
                                 GroupRows(input.outcomes, input.group_offsets, k));
    }
  }
  const CollapseCounts recount = CountClasses(classes);
  if (recount == input.collapse.step) return classes;
  return InvalidArgument(
      "collapse.step counts " + std::to_string(input.collapse.step.constant()) + " constant of " +
      std::to_string(input.collapse.step.groups) + " groups; a recount of the batch gives " +
      std::to_string(recount.constant()) + " of " + std::to_string(recount.groups));
}

Status Run(const AdvantageEstimator& estimator, const AdvantageInput& input,
           const AlgorithmConfig& options, AdvantageOutput& out) {
  out.advantages.assign(input.rewards.size(), 0.0);
  return estimator.compute(input, options, out);
}

}  // namespace

std::span<const AdvantageEstimator> AdvantageEstimators() { return kEstimators; }

Result<const AdvantageEstimator*> FindAdvantageEstimator(std::string_view name) {
  std::string choices;
  for (const AdvantageEstimator& estimator : kEstimators) {
    if (estimator.name == name) return &estimator;
    choices += (choices.empty() ? "" : ", ") + std::string(estimator.name);
  }
  return InvalidArgument("algorithm.advantage = '" + std::string(name) +
                         "' is not an estimator; choose one of: " + choices);
}

Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input,
                                          const AlgorithmConfig& options) {
  BUTTRESS_ASSIGN_OR_RETURN(const AdvantageEstimator* estimator,
                            FindAdvantageEstimator(options.advantage));
  BUTTRESS_ASSIGN_OR_RETURN(const bool all_scorable, CheckBatch(input));
  AdvantageOutput out;
  BUTTRESS_ASSIGN_OR_RETURN(out.collapse, Classify(input, all_scorable));
  out.decisions.resize(out.collapse.size());
  out.next_gate = input.gate;
  if (all_scorable) {
    BUTTRESS_RETURN_IF_ERROR(Run(*estimator, input, options, out));
  } else {
    const ScorableRows scorable(input);
    BUTTRESS_RETURN_IF_ERROR(Run(*estimator, scorable.input(), options, out));
    out.advantages = scorable.Spread(out.advantages);
    if (!out.entropy_scale.empty()) out.entropy_scale = scorable.Spread(out.entropy_scale);
  }
  BUTTRESS_RETURN_IF_ERROR(CheckAdvantages(out, estimator->name));
  return out;
}

RandomKey AdvantageKey(std::uint64_t run_seed, std::int64_t step) {
  return {MixSeed(run_seed, HashText("advantage")), static_cast<std::uint64_t>(step)};
}

}  // namespace buttress
