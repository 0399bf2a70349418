// Advantage estimators: a table of pure functions with one signature, in double, over a whole batch. To add one: write a function in
// advantage.cc (or a file of its own), add its row to the table there, add its golden vector.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/acr.h"
#include "lib/rl/types.h"

namespace buttress {

// N completions, group k owns rows [group_offsets[k], group_offsets[k+1]).
struct AdvantageInput {
  std::span<const double> rewards;              // [N] shaped totals
  std::span<const double> raw_rewards;          // [N] before shaping; decides collapse
  std::span<const Outcome> outcomes;            // [N], or empty if unknown
  std::span<const double> components;           // [N, C] row-major; empty unless the reward has parts
  std::span<const std::int32_t> lengths;        // [N] trained tokens
  std::span<const std::int32_t> group_offsets;  // [K + 1]
  std::span<const PromptHistory> history;       // [K] before this batch
  CollapseSnapshot collapse;                    // of the step, equal for all
  RandomKey key;                                // (run, step)
};

// What a gate did to one group.
struct VirtualDecision {
  bool injected = false;
  double weight = 0;  // confidence weight of the virtual advantages
  std::int32_t virtual_samples = 0;
};

struct AdvantageOutput {
  std::vector<double> advantages;          // [N]; exactly 0 for unscorable completions
  std::vector<CollapseClass> collapse;     // [K] raw, never altered by injection
  std::vector<VirtualDecision> decisions;  // [K]
};

using AdvantageFn = Status (*)(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

struct AdvantageEstimator {
  std::string_view name;
  AdvantageFn compute;
  std::string_view formula;            // one line, with its paper
  std::string_view on_constant_group;  // "exactly 0", or what it gives
};

// All estimators, in the order of the documentation.
std::span<const AdvantageEstimator> AdvantageEstimators();

// The estimator that `name` names. kInvalidArgument: "algorithm.advantage = 'gpro' is not an estimator; choose one of: grpo, ...".
Result<const AdvantageEstimator*> FindAdvantageEstimator(std::string_view name);

// Checks shapes, then runs the estimator that options.advantage names. The learner's and the command line's only way in.
Result<AdvantageOutput> ComputeAdvantages(const AdvantageInput& input, const AlgorithmConfig& options);

}  // namespace buttress
