// <out>/steps.jsonl: one JSON object a step, in order, no step twice.
#pragma once

#include <cstdint>
#include <string>

#include "learner/trainer.h"
#include "lib/base/status.h"

namespace buttress {

// What the job adds to a step's report.
struct StepTimes {
  double time_unix = 0;
  double step_seconds = 0;  // since the step before ended
  double publish = 0;       // handing the weights over; writing them goes on beside the next step
  double checkpoint = 0;    // of the step before
};

// One line without its end. Rates are per second of step_seconds.
std::string StepToJson(const StepReport& report, const StepTimes& times);

// Not thread-safe.
class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  // Cuts off lines of steps after `last_step`, which are trained again, and an unfinished last line.
  Status KeepUntil(std::int64_t last_step) const;

  Status Append(const std::string& line) const;

 private:
  const std::string path_;
};

}  // namespace buttress
