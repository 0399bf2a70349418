// The breaker of a run: decides from the measurements of the steps whether it still learns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/config/watch_config.h"
#include "lib/measure/measurements.h"

namespace buttress {

// Why a run ends before its last step.
struct EarlyEnd {
  bool learned = false;  // every group is correct: a success
  std::string why;       // the cause and the setting that fixes it, in one line
};

// Counts steps from its construction. Not thread-safe.
class Breaker {
 public:
  explicit Breaker(const StopWhenConfig& config) : config_(config) {}

  // Takes the measurements of the next step and returns why the run ends with it, or nullopt. Only
  // raw rewards count: virtual samples, shaping and the KL term do not make a step informative.
  // `reason` is why completions of the step could not be scored, if there were any.
  std::optional<EarlyEnd> Observe(const StepMeasurements& step, const std::string& reason);

 private:
  EarlyEnd Uninformative() const;

  const StopWhenConfig config_;
  std::int64_t unscorable_steps_ = 0;     // in a row
  std::int64_t uninformative_steps_ = 0;  // in a row, with these groups:
  double comparable_ = 0;
  double all_correct_ = 0;
  double all_wrong_ = 0;
};

}  // namespace buttress
