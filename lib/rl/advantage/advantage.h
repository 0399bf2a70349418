// Advantage estimators: pure functions of one signature over the rewards of a whole batch, in
// double. docs/contributing.md says how to add one; docs/estimators.md is generated from the table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/config/run_config.h"
#include "lib/experience/group_offsets.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

// What the gate of some groups carries from one step to the next; empty before the first step.
struct GateMemory {
  std::optional<double> threshold;    // of the next step
  std::optional<double> reward_mean;  // mean raw reward of the groups, in the step before

  bool operator==(const GateMemory&) const = default;
};

// What the gates of a run carry: that of all groups, and those of the sources that have had one.
struct GateState : GateMemory {
  std::map<std::string, GateMemory> sources = {};

  bool operator==(const GateState&) const = default;
};

// The scorable completions of one group.
struct ScorableGroup {
  std::vector<std::size_t> rows;  // of the batch, rising
  std::vector<double> rewards;    // after shaping

  double size() const { return static_cast<double>(rows.size()); }

  // Sets the advantage of each completion to advantage_of(reward).
  template <class Function>
  void Set(std::vector<double>& advantages, Function advantage_of) const {
    for (std::size_t i = 0; i < rows.size(); ++i) advantages[rows[i]] = advantage_of(rewards[i]);
  }
};

// N completions in K groups; group k owns rows [group_offsets[k], group_offsets[k + 1]).
struct AdvantageInput {
  std::vector<double> rewards;      // [N] after shaping
  std::vector<double> raw_rewards;  // [N] before shaping; these decide collapse
  // [N], or empty where outcomes are unknown; a raw reward that is not a number is then unscorable
  std::vector<Outcome> outcomes;
  std::vector<double> components;           // [N, C] row-major; empty for a reward of one part
  std::vector<std::int32_t> lengths;        // [N] trained tokens
  std::vector<std::int32_t> group_offsets;  // [K + 1]
  std::vector<CollapseClass> classes;       // [K] of the raw rewards
  std::vector<PromptHistory> history;       // [K] before this batch
  // [K] index of the source in collapse.sources, or empty where sources are not known
  std::vector<std::int32_t> sources;
  CollapseSnapshot collapse;  // of the step, equal on every rank
  // Groups drawn for the step beyond these K: masked ones, which are among the K without scorable
  // completions, and replaced ones. Rates over what was drawn count them.
  CollapseCounts left_out;
  GateState gate;  // next_gate of the step before
  RandomKey key;   // from the run's seed and the step

  std::size_t groups() const { return group_offsets.size() - 1; }

  // Whether completion `row` counts: the mask that estimators apply.
  bool scorable(std::size_t row) const { return IsScorable(raw_rewards[row], outcomes, row); }

  ScorableGroup scorable_group(std::size_t k) const;
};

// Virtual samples of one group.
struct VirtualDecision {
  bool injected = false;
  double weight = 0;           // of the advantages among virtual samples
  double virtual_samples = 0;  // their number, or their weight
};

// What the gate of an estimator compared for the groups that it decides about.
struct GateReading {
  double rate = 0;
  double threshold = 0;
  bool open = false;
};

struct AdvantageOutput {
  std::vector<double> advantages;  // [N]; exactly 0 for unscorable completions
  // [N] for TokenAdvantages; empty unless the estimator looks at tokens
  std::vector<double> entropy_scale;
  std::vector<VirtualDecision> decisions;  // [K]
  std::optional<GateReading> gate;         // absent for an estimator without a gate
  // [S] by collapse.sources, or empty: of the sources with a rate of their own; the groups of the
  // others read `gate`
  std::vector<std::optional<GateReading>> source_gates;
  GateState next_gate;  // for the next step; equal to the input's for an estimator without state

  // Whether the advantage of completion `row`, or of one of its tokens, is not 0.
  bool has_gradient(std::size_t row) const {
    return advantages[row] != 0 || (!entropy_scale.empty() && entropy_scale[row] != 0);
  }
};

// An estimator fills out.advantages from the scorable completions; what it sets for others becomes
// 0. Its input is checked; `out` arrives with advantages of 0 and decisions empty. The result
// depends on the arguments alone.
using AdvantageFn = Status (*)(const AdvantageInput& input, const AlgorithmConfig& options,
                               AdvantageOutput& out);

// The estimator that others start from, GRPO (DeepSeekMath, arXiv 2402.03300, section 4.1.2): A_i =
// (r_i - mean) / (std + eps).
Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

struct EstimatorInfo {
  Estimator estimator;
  AdvantageFn compute;
  std::string_view formula;  // one line
  std::string_view paper;
  std::string_view on_constant_group;  // "exactly 0", or the advantages of such a group
  bool reads_lengths = false;
  bool reads_components = false;

  std::string_view name() const { return ChoiceName(estimator); }
};

// All estimators, in the order of Estimator.
std::span<const EstimatorInfo> Estimators();

const EstimatorInfo& InfoOf(Estimator estimator);

// Checks the batch, runs the estimator of options.advantage and checks its result. The learner and
// the command line have no other way in. Pure. kInvalidArgument names the field and row.
Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input,
                                          const AlgorithmConfig& options);

// Advantages of the tokens of one completion. For an entropy_scale above 0, advantages[t] =
// advantage + entropy_scale * entropies[t]; below 0, advantage + entropy_scale * (max entropy -
// entropies[t]); for 0, advantage. Pure. REQUIRES: as many advantages as entropies.
void TokenAdvantages(double advantage, double entropy_scale, std::span<const double> entropies,
                     std::span<double> advantages);

// What a group gives on average: w(p) of the expected gradient w(p) grad p (docs/theory.md, section
// 2), and the mean square of its advantages, the power of its gradient where the scores of
// completions have equal norms and are orthogonal.
struct GradientMoments {
  double weight = 0;
  double power = 0;
};

// The moments of groups of `size` completions with binary rewards, on-policy and before clipping,
// for a prompt with success rate `p` whose history is long and whose steps all collapse, so that
// every gate is open. They are sums over the number of successes. Nullopt if the estimator refuses
// such a group, and for estimators whose statistics are over a whole batch. REQUIRES: 0 < p < 1,
// size >= 2.
std::optional<GradientMoments> MomentsOf(double p, int size, const AlgorithmConfig& options);

// Key of the estimators' random numbers at a step; a replay of the step uses the same.
RandomKey AdvantageKey(std::uint64_t run_seed, std::int64_t step);

}  // namespace buttress
