// Where the curves of a run are shown beside `buttress` itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/measure/eval_file.h"
#include "lib/measure/measurements.h"

namespace buttress {

// A number of a step under the name that trackers show it by.
struct Scalar {
  std::string name;  // "reward_mean", "importance/ess", "sources/gsm8k/acr"
  double value = 0;  // finite
  double step = 0;  // that it is of: an evaluation is of an earlier step than the one that holds it
};

// The measurements of a step that were taken, in the order of steps.jsonl, and then those of each
// data source.
std::vector<Scalar> ScalarsOf(const StepMeasurements& step);

// The same of an evaluation that no step holds.
std::vector<Scalar> ScalarsOf(const EvalRow& row);

enum class RunEnd : std::uint8_t { kFinished, kInterrupted };

// Not thread-safe.
class Tracker {
 public:
  virtual ~Tracker() = default;

  // Takes the next steps. A step that is not above the one before it is trained again, after a
  // return to a checkpoint. After an error the same steps may be given once more.
  virtual Status Add(std::span<const StepMeasurements> steps) = 0;

  // Takes the evaluations that no step holds: those that ended after the last step. After an error
  // the same ones may be given once more.
  virtual Status AddEvaluations(std::span<const EvalRow> rows) = 0;

  virtual Status End(RunEnd end) = 0;

  // Where the curves are.
  virtual std::string Place() const = 0;
};

}  // namespace buttress
