// The plan of a step: the groups that the coordinator chose, side by side and without tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/experience/collapse.h"
#include "lib/experience/group_head.h"
#include "lib/experience/types.h"

namespace buttress {

// Sums over the completions of all groups drawn for a step, those that others replaced included. An
// episode with branches is one completion, with the tokens of all.
struct DrawnTotals {
  std::int64_t completions = 0;
  std::int64_t scorable = 0;  // of them
  std::int64_t tokens = 0;    // of all completions, trained or not
  double raw_reward = 0;      // sum over the scorable ones

  // Adds the completions of a group.
  void Add(const v1::GroupHead& group);

  bool operator==(const DrawnTotals&) const = default;
};

// What the closed loop on collapse (run.control) decided for a step, and what came of it.
struct DrawControl {
  double factor = 1;                 // groups that might be drawn for the step, in units of P
  std::optional<double> expected;    // share of mixed groups in the plan that was expected from
                                     // this; nullopt for the first step
  double mixed = 0;                  // that share
  std::int64_t replaced_tokens = 0;  // of the groups that were replaced up to this step

  bool operator==(const DrawControl&) const = default;
};

// K groups, N completions in the order of groups and indices.
struct Plan {
  std::uint64_t step = 0;
  std::vector<GroupHeadPtr> groups;  // [K]
  CollapseSnapshot collapse;
  DrawnTotals drawn;
  std::optional<DrawControl> control = {};  // nullopt if it is off

  // Returns the row layout, [K + 1] (group_offsets.h): group k owns rows [k] to [k + 1] of columns
  // over N completions.
  std::vector<std::int32_t> offsets() const;
};

// Returns the offset layout of groups side by side, [K + 1].
std::vector<std::int32_t> OffsetsOf(std::span<const GroupHeadPtr> groups);

// Returns the index in `sources` of the source of each group, [K]; empty if `sources` is. REQUIRES:
// sources are in the order of their names, and each group's is one of them.
std::vector<std::int32_t> SourceIndices(std::span<const GroupHeadPtr> groups,
                                        std::span<const SourceCollapse> sources);

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
