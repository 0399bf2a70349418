// The advantages that other settings of the estimator would have given for the batches that a run
// trained on. The advantages come from the learner's own code, step after step, so that gates see
// the rates and keep the thresholds that they would have had.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/sections/data_config.h"
#include "lib/ledger/reader.h"
#include "lib/rl/assignment.h"

namespace buttress {

// A step under one choice of settings.
struct ReplayedBatch {
  BatchSummary summary;
  std::vector<double> advantages;  // [N], by row of the plan
};

struct ReplayedStep {
  Plan plan;
  ReplayedBatch trained;   // with the settings of the run
  ReplayedBatch replayed;  // with the settings in question
};

// Sums over the steps of a run under one choice of settings.
struct ReplayTotals {
  std::int64_t steps = 0;
  std::int64_t groups = 0;                    // of the batches
  std::int64_t groups_without_advantage = 0;  // of them: every advantage is 0
  std::int64_t virtual_groups = 0;            // of them: with virtual samples
  std::int64_t tokens = 0;                    // in the loss
  std::int64_t zero_advantage_tokens = 0;     // of them: with an advantage of 0
  std::int64_t gated_steps = 0;               // in which a gate decided
  std::int64_t open_gates = 0;                // of them: it was open
  GradientMass gradient;                      // of the policy loss, without the KL term

  void Add(const BatchSummary& summary);

  double acr_effective() const;
};

// What a prompt selection makes of the groups that a run drew and accepted, in the order in which
// they were drawn. A group that would have been passed over leaves no history, and the next ones
// are judged without it.
struct SelectionReplay {
  CollapseCounts drawn;        // groups that would have been drawn as well
  CollapseCounts passed_over;  // the others
};

// Reads the steps of a run from its folder. Not thread-safe.
class RunReplay {
 public:
  // Opens a run folder. `overrides` ("run.algorithm.advantage=avspo") change the settings that the
  // run was started with: those of run.algorithm and run.data.selection, and
  // run.batch.zero_variance, whose `resample` stands for masks, because a replay draws no prompts.
  // kInvalidArgument names a setting that a replay cannot change; kFailedPrecondition if the folder
  // holds the configuration of another run.
  static Result<std::unique_ptr<RunReplay>> Open(const std::string& folder,
                                                 const std::vector<std::string>& overrides);

  // Reads the next step and returns true, or returns false behind the last one. A plan with a
  // place that no group has filled is passed over, because it was not trained.
  Result<bool> Next(ReplayedStep& step);

  // Judges every group of the run by the prompt selection in question.
  Result<SelectionReplay> Selection();

  SelectionMode selection_mode() const { return selection_.selection.mode; }

  const std::string& run_name() const { return run_name_; }

  std::size_t plans() const { return plans_.size(); }

  const AlgorithmConfig& trained_settings() const { return trained_.run.algorithm; }

  const AlgorithmConfig& replayed_settings() const { return replayed_.run.algorithm; }

 private:
  RunReplay() = default;

  Result<Plan> ReadPlan(const PlanRow& row);

  std::string run_name_;
  std::unique_ptr<LedgerReader> reader_;
  std::map<std::uint64_t, PlanRow> plans_;
  std::map<std::uint64_t, PlanRow>::const_iterator next_;
  AssignmentOptions trained_, replayed_;

  struct {
    SelectionConfig selection;
    std::uint64_t seed = 0;
    std::int64_t prompts = 0;  // of a step
  } selection_;

  GateState trained_gate_, replayed_gate_;
};

}  // namespace buttress
