// Alarms of a run, step by step. Functions are pure; a class keeps only the last steps that its
// rules read.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "lib/config/sampling_config.h"
#include "lib/experience/types.h"

namespace buttress {

// Measurements of a step that the rules read; steps.jsonl has the same numbers.
struct StepReading {
  double entropy = 0;         // nats per token
  double sampler_kl = 0;      // KL of sampling policy and learner, nats per token
  double reference_kl = 0;    // KL of start model and learner; 0 if it is not measured
  double distinct_share = 1;  // distinct responses (ResponseProbe)
};

enum class Alarm : std::uint8_t {
  // the entropy is below entropy_floor for more than entropy_steps steps in a row
  kEntropyLow,
  // the line through the last trend_steps entropies loses the share entropy_fall of its start
  kEntropyFalling,
  // the larger KL, averaged over about ten steps, is above kl_limit
  kKlDrift,
  // the share of distinct responses, averaged over about ten steps, is below distinct_floor
  kResponsesAlike,
};

inline constexpr std::size_t kAlarms = 4;

// "entropy_low", "entropy_falling", "kl_drift", "responses_alike".
std::string_view AlarmName(Alarm alarm);

// The least-squares line through values at 0, 1, ..., at its two ends.
struct Line {
  double first = 0;
  double last = 0;
};

// REQUIRES: at least two values.
Line FitLine(std::span<const double> values);

// Share of its start that the line through `values` loses; 0 if the line does not fall, for fewer
// than two values, and for a start of 0 or less.
double FallOf(std::span<const double> values);

inline constexpr double kReadingDecay = 0.9;

// Raises alarms: each once, when its rule begins to hold. A value that crossed its limit must
// return by a tenth of the limit before the alarm can be raised again. The same readings give the
// same alarms. Not thread-safe.
class AlarmMonitor {
 public:
  explicit AlarmMonitor(const AlarmConfig& config) : config_(config) {}

  // Processes the measurements of the next step and returns the alarms that begin with it. A value
  // that is not finite is ignored.
  std::vector<Alarm> Observe(const StepReading& reading);

  // Whether the rule of `alarm` holds now.
  bool active(Alarm alarm) const { return active_[static_cast<std::size_t>(alarm)]; }

  double kl_average() const { return kl_average_; }

 private:
  const AlarmConfig config_;
  std::deque<double> entropies_;        // of the last trend_steps
  std::int64_t low_entropy_steps_ = 0;  // in a row
  double kl_average_ = 0;               // of the larger KL
  double distinct_average_ = 1;
  std::int64_t steps_ = 0;
  std::array<bool, kAlarms> active_{};
};

// Counts of distinct and of well-formed responses. A checkpoint that fine-tuning fitted to a format
// gives few distinct responses, all of them well-formed. Counts add up over groups.
struct ResponseProbe {
  std::int64_t responses = 0;  // scorable
  std::int64_t distinct = 0;   // different token sequences within a group
  std::int64_t formatted = 0;  // responses from which the verifier extracted an answer

  void Add(const Group& group);

  // Shares of the responses; 0 without responses.
  double distinct_share() const;
  double format_share() const;
};

}  // namespace buttress
