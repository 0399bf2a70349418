// What a run is watched for, step by step. Functions are pure; a class holds only the last steps
// that its rules look at.
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

// What of a step the rules look at; steps.jsonl has the same numbers.
struct StepReading {
  double entropy = 0;         // nats a token
  double sampler_kl = 0;      // KL of sampling policy and learner, nats a token
  double reference_kl = 0;    // KL of start model and learner; 0 where it is not measured
  double distinct_share = 1;  // of the responses, ResponseProbe
};

enum class Alarm : std::uint8_t {
  kEntropyLow,  // the brief's rule: below entropy_floor for more than entropy_steps steps in a row
  // the line through the last trend_steps entropies loses entropy_fall of its start
  kEntropyFalling,
  kKlDrift,         // a KL, averaged over about ten steps, is above kl_limit
  kResponsesAlike,  // the share of distinct responses, averaged likewise, is below distinct_floor
};

inline constexpr std::size_t kAlarms = 4;

// "entropy_low", "entropy_falling", "kl_drift", "responses_alike".
std::string_view AlarmName(Alarm alarm);

// Length of the run of values below `floor` at the end of `values`.
std::int64_t StepsBelow(std::span<const double> values, double floor);

// The least-squares line through values at 0, 1, ..., at its two ends.
struct Line {
  double first = 0;
  double last = 0;
};

// REQUIRES: at least two values.
Line FitLine(std::span<const double> values);

// Share of its start that the line through `values` loses, 0 where it does not fall; 0 for fewer
// than two values or a start of 0 or less.
double FallOf(std::span<const double> values);

inline constexpr double kReadingDecay = 0.9;

// Raises alarms, each once when its rule begins to hold; a limit that was crossed must be left by a
// tenth before it can ring again. The same readings give the same alarms. Not thread-safe.
class AlarmMonitor {
 public:
  explicit AlarmMonitor(const AlarmConfig& config) : config_(config) {}

  // Takes the reading of the next step and returns the alarms that begin with it. A value that is
  // not finite is left out of its rule.
  std::vector<Alarm> Observe(const StepReading& reading);

  // Whether its rule holds now.
  bool active(Alarm alarm) const { return active_[static_cast<std::size_t>(alarm)]; }

  double kl_average() const { return kl_average_; }

 private:
  const AlarmConfig config_;
  std::deque<double> entropies_;        // of the last trend_steps
  std::int64_t low_entropy_steps_ = 0;  // in a row
  double kl_average_ = 0;               // of the larger of the two
  double distinct_average_ = 1;
  std::int64_t steps_ = 0;
  std::array<bool, kAlarms> active_{};
};

// How alike and how well formed the responses of a group are: an SFT checkpoint that was fitted to
// a format gives few distinct responses, all of them well formed. Counts add up over groups.
struct ResponseProbe {
  std::int64_t responses = 0;  // scorable
  std::int64_t distinct = 0;   // different token sequences among them, within their group
  std::int64_t formatted = 0;  // with an answer that the verifier could extract

  void Add(const Group& group);

  // 0 without responses.
  double distinct_share() const;
  double format_share() const;
};

}  // namespace buttress
