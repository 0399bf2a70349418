// Alarms that watch the measurements of a run step by step: entropy, KL, and how alike the
// responses are.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "lib/config/sampling_config.h"
#include "lib/measure/measurements.h"

namespace buttress {

// The least-squares line through values at 0, 1, ..., at its two ends.
struct Line {
  double first = 0;
  double last = 0;
};

// REQUIRES: at least two values.
Line FitLine(std::span<const double> values);

// Returns the share of its start that the line through `values` loses. It is 0 if the line does not
// fall, starts at 0 or below, or has fewer than two values.
double FallOf(std::span<const double> values);

inline constexpr double kReadingDecay = 0.9;  // of the moving averages: about ten steps

// Raises each alarm once when its rule begins to hold. A limit that was crossed must be left by a
// tenth before the alarm can begin again. The same measurements give the same alarms. Not
// thread-safe.
class AlarmMonitor {
 public:
  explicit AlarmMonitor(const AlarmConfig& config) : config_(config) {}

  // Takes the measurements of the next step and returns the alarms that begin with it. It reads
  // entropy, kl, ref_kl and distinct_share; a value that is not finite does not count.
  std::vector<Alarm> Observe(const StepMeasurements& step);

  // Whether the rule of `alarm` holds now.
  bool active(Alarm alarm) const { return active_[static_cast<std::size_t>(alarm)]; }

  // The moving average of the larger of kl and ref_kl.
  double kl_average() const { return kl_average_; }

 private:
  const AlarmConfig config_;
  std::deque<double> entropies_;        // of the last trend_steps steps
  std::int64_t low_entropy_steps_ = 0;  // in a row
  double kl_average_ = 0;
  double distinct_average_ = 1;
  std::int64_t steps_ = 0;
  std::array<bool, kAlarms> active_{};
};

}  // namespace buttress
