// The plan of a step: the groups that the coordinator chose, in columns and without tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

// Sums over the completions of all groups drawn for a step, those that others replaced included.
struct DrawnTotals {
  std::int64_t completions = 0;
  std::int64_t scorable = 0;  // of them
  std::int64_t tokens = 0;    // of all completions, trained or not
  double raw_reward = 0;      // sum over the scorable ones

  bool operator==(const DrawnTotals&) const = default;
};

// K groups, N completions, C reward components. Group k owns rows
// [group_offsets[k], group_offsets[k + 1]); its completion `index` is row group_offsets[k] + index.
struct Plan {
  std::uint64_t step = 0;

  // [K]
  std::vector<std::uint64_t> group_ids;
  std::vector<std::int32_t> group_offsets = {0};  // [K + 1]
  std::vector<std::int32_t> prompt_lengths;       // tokens
  std::vector<PolicyVersion> oldest_versions;     // without digest
  std::vector<PromptHistory> history;             // before the group's own update
  std::vector<CollapseClass> classes;             // of the raw rewards, as classified on acceptance
  // Index of each group's source in collapse.sources; empty where sources are not known.
  std::vector<std::int32_t> sources;

  // [N]
  std::vector<Outcome> outcomes;
  std::vector<double> raw_rewards;          // before shaping; 0 if unscorable
  std::vector<double> rewards;              // shaped totals; 0 if unscorable
  std::vector<std::int32_t> lengths;        // trained tokens; 0 if unscorable
  std::vector<std::int32_t> total_lengths;  // tokens
  std::vector<bool> truncated;              // cut at the token limit

  // [N, C], row-major; 0 where an unscorable completion has none. Empty if the rewards of the
  // groups have different numbers of components.
  std::vector<double> components;

  CollapseSnapshot collapse;
  DrawnTotals drawn;

  std::size_t groups() const { return group_ids.size(); }

  std::size_t rows() const { return outcomes.size(); }

  bool operator==(const Plan&) const = default;
};

// The answer to PlanBatch.
struct PlanReply {
  std::optional<Plan> plan;  // nullopt: too few groups are ready, or the run ends
  bool finished = false;     // the run has no such step
  bool stopping = false;  // an operator stops the run: the learner writes a checkpoint and leaves
  std::uint64_t over_long_prompts = 0;  // passed over so far (run.data.over_long: drop)
};

// The answer to RegisterLearner.
struct LearnerStart {
  std::uint64_t learner_epoch = 0;  // fences the calls of this incarnation of the learner
  std::uint64_t next_step = 0;      // the first step to plan
};

}  // namespace buttress
