// The value that the phases of a training step fill, each its own part, and the phase that fetches
// the groups.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "learner/batch_source.h"
#include "learner/step/step_sums.h"
#include "lib/base/report/status.h"
#include "lib/measure/measurements.h"
#include "lib/rl/assignment.h"

namespace buttress {

enum class StepEnd {
  kTrained,
  kFinished,    // there is no such step: the run is over
  kStopped,     // rank 0 was asked to leave before the step began
  kRunStopped,  // an operator stops the run: the job ends with success after a checkpoint
};

struct FetchedGroup {
  v1::Group group;
  std::size_t first_row = 0;  // row of completion 0 in the plan
  bool constant = false;      // the raw rewards are all equal

  int completions() const { return Completions(group.head()); }

  std::size_t row(int i) const { return first_row + static_cast<std::size_t>(i); }
};

// Log-probs of the trained tokens of this rank's completions, by row of the step.
using RowLogprobs = std::map<std::size_t, std::vector<float>>;

struct StepState {
  std::int64_t step = 0;
  StepEnd end = StepEnd::kTrained;

  // AgreeOnPlan.
  Plan plan;              // rank 0 only
  BatchSummary summary;   // rank 0 only
  Assignment assignment;  // equal on all ranks

  // FetchGroups: the groups of this rank, in the order of the plan.
  std::vector<FetchedGroup> groups;

  // SubtractKlFromRewards and KeepLogprobs: of the start model. Empty unless kl_in is "reward", or
  // several epochs read them.
  RowLogprobs reference_logprobs;

  // KeepLogprobs: of the policy before the first update. Empty unless the ratio divides by it and
  // there are several updates.
  RowLogprobs old_logprobs;

  // MarkCovarianceTokens: one byte per trained token of a row; empty unless the loss reads
  // covariances.
  std::map<std::size_t, std::vector<std::uint8_t>> marks;

  // MakeUpdates, and SumUp over all ranks.
  StepSums sums;
  std::int64_t updates_run = 0;  // with a loss and a gradient, used or not
  double finite_norms = 0;       // sum of the norms of their gradients, of those that are finite

  // Rank 0 knows all of it; the other ranks know `skipped`, their seconds and what comes from sums.
  StepMeasurements measured;
};

// Fetches the groups that state.assignment gives to `rank` into state.groups. kDataLoss if they are
// not the groups of the plan with the planned lengths; errors of the source.
Status FetchGroups(BatchSource& source, int rank, StepState& state);

}  // namespace buttress
