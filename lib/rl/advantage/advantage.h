// Advantage estimators: a table of pure functions with one signature, in double, over a whole
// batch. To add one: write its function, add its row to the table in advantage.cc and its name to
// validate.cc, add its golden vector. docs/estimators.md is made from the table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

// What a gate remembers from step to step. Empty before the first step.
struct GateState {
  std::optional<double> threshold;    // of the next step
  std::optional<double> reward_mean;  // raw, of the step before

  bool operator==(const GateState&) const = default;
};

// N completions, group k owns rows [group_offsets[k], group_offsets[k+1]).
struct AdvantageInput {
  std::span<const double> rewards;      // [N] shaped totals
  std::span<const double> raw_rewards;  // [N] before shaping; decides collapse
  std::span<const Outcome>
      outcomes;  // [N]; or empty if unknown, where a raw reward that is not a number is unscorable
  std::span<const double> components;     // [N, C] row-major; empty unless the reward has parts
  std::span<const std::int32_t> lengths;  // [N] trained tokens
  std::span<const std::int32_t> group_offsets;  // [K + 1]
  std::span<const PromptHistory> history;       // [K] before this batch
  CollapseSnapshot collapse;                    // of the step, equal for all
  GateState gate;                               // next_gate of the step before
  RandomKey key;                                // (run, step)

  std::size_t groups() const { return group_offsets.size() - 1; }
};

// What a gate did to one group.
struct VirtualDecision {
  bool injected = false;
  double weight = 0;           // confidence weight of the virtual advantages
  double virtual_samples = 0;  // how many, or their weight
};

// What a gate compared, for the whole batch.
struct GateReading {
  double rate = 0;
  double threshold = 0;
  bool open = false;
};

struct AdvantageOutput {
  std::vector<double> advantages;  // [N]; exactly 0 for unscorable completions
  std::vector<double>
      // [N] for TokenAdvantages (rl_zvp.h); empty unless the estimator looks at tokens
      entropy_scale;
  std::vector<CollapseClass> collapse;     // [K] raw, never altered by injection
  std::vector<VirtualDecision> decisions;  // [K]
  std::optional<GateReading> gate;         // none for an estimator without a gate
  GateState next_gate;  // for the next step; the input's for an estimator that remembers nothing

  // Whether completion `row` may have a gradient: its advantage, or that of one of its tokens, is
  // not 0.
  bool has_gradient(std::size_t row) const {
    return advantages[row] != 0 || (!entropy_scale.empty() && entropy_scale[row] != 0);
  }
};

// What an estimator sees: a checked batch without unscorable completions (groups may be empty), and
// an output of that shape with advantages 0, classes set, decisions empty. It must not depend on
// anything else.
using AdvantageFn = Status (*)(const AdvantageInput& input, const AlgorithmConfig& options,
                               AdvantageOutput& out);

struct AdvantageEstimator {
  std::string_view name;
  AdvantageFn compute;
  std::string_view formula;  // one line
  std::string_view paper;
  std::string_view on_constant_group;  // "exactly 0", or what it gives
  bool reads_lengths = false;
  bool reads_components = false;
};

// All estimators, in the order of the documentation.
std::span<const AdvantageEstimator> AdvantageEstimators();

// The estimator that `name` names. kInvalidArgument: "algorithm.advantage = 'gpro' is not an
// estimator; choose one of: grpo, ...".
Result<const AdvantageEstimator*> FindAdvantageEstimator(std::string_view name);

// Checks the batch, then runs the estimator that options.advantage names. The learner's and the
// command line's only way in. Pure.
Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input,
                                          const AlgorithmConfig& options);

// Random numbers of estimators at a step; a replay uses the same.
RandomKey AdvantageKey(std::uint64_t run_seed, std::int64_t step);

}  // namespace buttress
