// The interface through which the learner gets plans and groups and reports finished steps. A run
// uses CoordinatorSource, tests use a fake.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/group.h"
#include "lib/experience/plan.h"

namespace buttress {

// Every call may be repeated: a step has the same plan and the same groups until it is settled, but
// for groups that are found damaged.
// Only rank 0 calls Plan and Commit.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Waits up to `wait` for the plan of `step`. Returns a reply without a plan if too few groups are
  // ready by then, or if the run has no such step.
  virtual Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds wait) = 0;

  // Returns groups of the step's plan, in the order of `group_ids`. kAborted if other groups take
  // the places of some of them in the plan: the caller asks for the plan again.
  virtual Result<std::vector<v1::Group>> Fetch(std::int64_t step,
                                               std::span<const std::uint64_t> group_ids) = 0;

  // Reports that the optimizer step is done.
  virtual Status Commit(std::int64_t step) = 0;
};

}  // namespace buttress
