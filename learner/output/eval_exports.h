// The learner's side of the evaluations during a run (run.eval): leaves weights for the evaluator,
// and takes its results into the measurements of the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/measurements.h"
#include "lib/policy/transformer.h"
#include "lib/weights/manifest.h"

namespace buttress {

// For rank 0. Not thread-safe. Nothing here changes what is trained: weights that cannot be left
// and results that cannot be read cost a warning.
class EvalExports {
 public:
  explicit EvalExports(const RunConfig& config) : config_(config) {}

  // Removes weights of steps that are trained again. `steps` are those before `start.step`, whose
  // measurements hold the results that were taken already.
  void Start(const PolicyVersion& start, std::span<const StepMeasurements> steps);

  // Whether the weights of `version` are to be left for the evaluator. If kMostPendingEvals wait
  // already, the step is left out, unless the run is deterministic.
  bool IsDue(const PolicyVersion& version) const;

  // Leaves them. Where they are divided, the other ranks call SaveModelFolder.
  void Leave(const PolicyVersion& version, const Transformer& model);

  // Adds the oldest result that no step holds yet to the step.
  void TakeResult(StepMeasurements& step);

 private:
  Status Export(const PolicyVersion& version, const Transformer& model) const;

  const RunConfig& config_;
  PolicyVersion start_;
  double taken_step_ = 0;                   // of the newest result that a step holds
  std::optional<std::int64_t> seen_bytes_;  // of eval.jsonl, when it held nothing new
};

}  // namespace buttress
