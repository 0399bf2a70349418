// <out>/steps.jsonl: one JSON object per training step, in order. The learner writes it; everything
// that shows a run reads it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/measure/measurements.h"

namespace buttress {

// One line without its end. Numbers that are not finite become null.
std::string StepToJson(const StepMeasurements& step);

// Reads back what StepToJson wrote; a measurement that is null or missing is NaN. kDataLoss if the
// line is not a JSON object with an integer `step`, or names the value that is not a number.
Result<StepMeasurements> ParseStep(std::string_view line);

// Returns all complete lines of the file; an unfinished last line is left out. A file that does not
// exist has no steps. kDataLoss names path and line.
Result<std::vector<StepMeasurements>> ReadSteps(const std::string& path);

// Returns the newest `count` steps at most, of the last megabyte of the file. Errors as ReadSteps,
// without the line.
Result<std::vector<StepMeasurements>> ReadNewestSteps(const std::string& path, std::size_t count);

// Reads what is added to a steps file. Not thread-safe.
class StepsTail {
 public:
  explicit StepsTail(std::string path) : path_(std::move(path)) {}

  // Returns the steps whose lines were completed since the last call, and all of a file that took
  // the place of the one that was read; at most the lines of `max_bytes`, which a line never
  // reaches. Errors as ReadSteps.
  Result<std::vector<StepMeasurements>> Next(
      std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());

 private:
  const std::string path_;
  std::uint64_t file_ = 0;  // inode
  std::uint64_t offset_ = 0;
  std::size_t lines_ = 0;  // before the offset
};

Status AppendStep(const std::string& path, const StepMeasurements& step);

// Cuts off the lines of steps after `last_step`, which are trained again, and an unfinished last
// line.
Status TruncateSteps(const std::string& path, std::int64_t last_step);

}  // namespace buttress
