// What watches the measurements of a run step by step: alarms (entropy, KL, collapse, how alike and
// how long the responses are, how many have no verdict, and on how many two verifiers disagree),
// the breaker, and the signs that the first batch is off.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/sections/watch_config.h"
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

// An exponential moving average. It begins at the first value; values that are not finite do not
// count.
class MovingAverage {
 public:
  void Add(double value);

  // `otherwise` before the first value.
  double value_or(double otherwise) const { return value_.value_or(otherwise); }

  // As value_or, but `otherwise` before kSettled values: a single step is no average.
  double settled_or(double otherwise) const {
    return values_ < kSettled ? otherwise : value_or(otherwise);
  }

 private:
  static constexpr std::int64_t kSettled = 5;

  std::optional<double> value_;
  std::int64_t values_ = 0;
};

// A share over the last steps: sums of parts and wholes that decay by kReadingDecay a step. Values
// that are not finite do not count.
class RecentShare {
 public:
  void Add(double part, double whole);

  // The lower end of the 95 % interval of the share (WilsonInterval); 0 of nothing.
  double least() const;

 private:
  double part_ = 0, whole_ = 0;
};

// The cumulative sum of the collapse that difficulty does not explain (Page 1954): each step adds
// its excess in standard deviations, less kSlack, and the sum never falls below 0. Normal excesses
// of mean 0 cross kBound once in 10,000 steps (Siegmund 1985, eq. 2.57); excesses of mean m do so
// after about kBound / (m - kSlack) steps.
class ExcessSum {
 public:
  static constexpr double kSlack = 0.25;
  static constexpr double kBound = 13.1;

  // Takes the collapse rate of `groups` groups. The excess is that over the largest rate without a
  // fault, expected + kFitBias, and its deviation that of groups which all have that probability.
  // A rate that is not finite does not count.
  void Add(double observed, double expected, double groups);

  // Whether the sum has crossed the bound and has not returned to 0 since.
  bool crossed() const { return crossed_; }

 private:
  double sum_ = 0;
  bool crossed_ = false;
};

// What an alarm means and what to do about it, in sentences for people.
struct AlarmWords {
  std::string_view meaning;
  std::string_view advice;
};

AlarmWords WordsOf(Alarm alarm);

// Raises each alarm once when its rule begins to hold. A limit that was crossed must be left by a
// tenth before the alarm can begin again. The same measurements give the same alarms. Not
// thread-safe.
class AlarmMonitor {
 public:
  explicit AlarmMonitor(const AlarmConfig& config) : config_(config) {}

  // Takes the measurements of the next step and returns the alarms that begin with it. A value that
  // is not finite does not count.
  std::vector<Alarm> Observe(const StepMeasurements& step);

  // Whether the rule of `alarm` holds now.
  bool active(Alarm alarm) const { return active_[static_cast<std::size_t>(alarm)]; }

  // The moving average of the larger of kl and ref_kl.
  double kl_average() const { return kl_.value_or(0); }

  // ACR-100 and sigma-ACR (lib/rl/collapse/collapse_metrics.h) up to the last step; NaN before the
  // first ACR.
  double acr_100() const;
  double acr_sigma() const;

 private:
  static constexpr std::int64_t kLengthSteps = 10;

  void Average(const StepMeasurements& step);
  bool LengthDrifts() const;

  const AlarmConfig config_;
  std::deque<double> entropies_;        // of the last trend_steps steps
  std::int64_t low_entropy_steps_ = 0;  // in a row
  MovingAverage kl_, distinct_, collapse_, no_gradient_, unscorable_, truncated_, length_, solved_;
  RecentShare disagreement_;
  ExcessSum unexplained_;
  double start_kl_ = 0;            // that was measured last
  double first_lengths_ = 0;       // sum over the first kLengthSteps steps that have a length
  std::int64_t lengths_ = 0;       // steps that have one
  std::vector<double> first_acr_;  // of the first 100 steps
  std::deque<double> last_acr_;    // of the last 25
  std::array<bool, kAlarms> active_{};
};

// Why a run ends before its last step.
struct EarlyEnd {
  bool learned = false;  // every group is correct: a success
  std::string why;       // the cause and the setting that fixes it, in one line
};

// The breaker of a run: decides from the measurements of the steps whether it still learns. Counts
// steps from its construction. Not thread-safe.
class Breaker {
 public:
  explicit Breaker(const StopWhenConfig& config) : config_(config) {}

  // Takes the measurements of the next step and returns why the run ends with it, or nullopt. Only
  // deciding rewards count: virtual samples, shaping and the KL term make no step informative.
  // `reason` is why completions of the step could not be scored, if there were any.
  std::optional<EarlyEnd> Observe(const StepMeasurements& step, const std::string& reason);

 private:
  // The groups of a step, or of several.
  struct Groups {
    double trained = 0;  // of the batch
    double informative = 0;
    double comparable = 0;  // drawn; of them:
    double all_correct = 0;
    double all_wrong = 0;
  };

  std::optional<EarlyEnd> JudgeGroups(const StepMeasurements& step);
  EarlyEnd Uninformative(const Groups& groups) const;

  const StopWhenConfig config_;
  std::int64_t unscorable_steps_ = 0;  // in a row
  std::deque<Groups> newest_;          // of the last uninformative_steps steps
};

// How many of the prompts drawn for a step have a right completion.
struct SolvedPrompts {
  std::int64_t prompts = 0;  // with two verdicts or more
  std::int64_t solved = 0;   // of them
  std::int64_t tries = 0;    // completions of each
};

// Signs that the first batch of a run is off, reported before a second one is trained: one line for
// each thing that is off with the batch of `step`, trained from the weights that sampled it, and
// with the prompts drawn for it; empty if nothing is.
std::vector<std::string> FirstBatchNotices(const StepMeasurements& step,
                                           const SolvedPrompts& solved);

}  // namespace buttress
