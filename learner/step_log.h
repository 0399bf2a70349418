// <out>/steps.jsonl: one JSON object a step, in order, no step twice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "learner/trainer.h"
#include "lib/base/status.h"
#include "lib/rl/collapse/monitors.h"

namespace buttress {

// What the job adds to a step's report.
struct StepTimes {
  double time_unix = 0;
  double step_seconds = 0;  // since the step before ended
  double publish = 0;       // handing the weights over; writing them goes on beside the next step
  double checkpoint = 0;    // of the step before
};

// What the alarms look at.
StepReading ReadingOf(const StepReport& report);

// One line without its end. Rates are per second of step_seconds. `begun`: alarms that begin with
// this step.
std::string StepToJson(const StepReport& report, const StepTimes& times,
                       std::span<const Alarm> begun);

// Not thread-safe.
class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  // Cuts off lines of steps after `last_step`, which are trained again, and an unfinished last
  // line.
  Status KeepUntil(std::int64_t last_step) const;

  Status Append(const std::string& line) const;

  // Of every step in the file, so that alarms go on after a restart. A number that a line lacks is
  // NaN.
  Result<std::vector<StepReading>> Readings() const;

 private:
  const std::string path_;
};

}  // namespace buttress
