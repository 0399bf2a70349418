// Where the learner's batches come from and where it reports a finished step. The coordinator in a
// run, a fake in tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

// A group of a plan: everything that advantages need, no tokens. n completions, by index.
struct PlannedGroup {
  std::uint64_t group_id = 0;
  std::string prompt_id;
  std::int32_t prompt_tokens = 0;
  std::vector<Outcome> outcomes;            // [n]
  std::vector<double> raw_rewards;          // [n] before shaping
  std::vector<double> rewards;              // [n] shaped totals
  std::vector<double> components;           // [n, C] row-major; empty if the reward has one part
  std::vector<std::int32_t> lengths;        // [n] trained tokens
  std::vector<std::int32_t> total_lengths;  // [n] tokens, trained or not
  std::vector<bool> truncated;              // [n] cut at the token limit
  PolicyVersion oldest_version;
  PromptHistory history;  // before this group's own update
};

// Of a step: exactly P groups.
struct BatchPlan {
  std::int64_t step = 0;
  std::vector<PlannedGroup> groups;
  CollapseSnapshot collapse;
};

enum class PlanState { kReady, kWaiting, kFinished };

struct PlanReply {
  PlanState state = PlanState::kWaiting;
  BatchPlan plan;  // if ready
  std::int64_t ready_groups = 0;
};

// Safe to repeat: the same step gives the same plan and the same groups until it is settled. Plan
// and Commit are for rank 0.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // kWaiting once `wait` has passed without a batch: ask again.
  virtual Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds wait) = 0;

  // Groups of the step's plan, in the order asked.
  virtual Result<std::vector<Group>> Fetch(std::int64_t step,
                                           std::span<const std::uint64_t> group_ids) = 0;

  // The optimizer step is done.
  virtual Status Commit(std::int64_t step) = 0;
};

}  // namespace buttress
