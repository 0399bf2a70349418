// Whether a run learned: the first against the last steps, the held-out prompts before and after,
// and how much of what was sampled taught anything. All functions are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/measure/measurements.h"

namespace buttress {

enum class ChangeVerdict : std::uint8_t { kRose, kFell, kWithinChance, kTooFewSteps };

// "rose", "fell", "within chance", "too few steps".
std::string_view ChangeVerdictName(ChangeVerdict verdict);

// A quantity early and late in a run, and the 95 % interval [low, high] of the difference; NaN for
// what is not known.
struct Change {
  double first = std::numeric_limits<double>::quiet_NaN();
  double last = std::numeric_limits<double>::quiet_NaN();
  double difference = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  ChangeVerdict verdict = ChangeVerdict::kTooFewSteps;
};

// The mean of a quantity over the completions of a step.
struct StepMean {
  double mean = 0;
  // The largest variance that the chance of prompts and samples can give it; infinite or NaN if it
  // is not known.
  double most_variance = std::numeric_limits<double>::infinity();
};

// Returns the 97.5 % quantile of Student's t with `freedom` degrees of freedom, at least 1.
double StudentT95(double freedom);

inline constexpr std::size_t kLeastSteps = 20;  // for a verdict
inline constexpr std::size_t kLeastTenth = 5;   // steps of the tenth of a short run

// Compares the mean of the first tenth of the steps with that of the last (kLeastTenth steps at
// least). The interval is Welch's, with the number of steps of each tenth divided by
// (1 + rho) / (1 - rho) for steps of autocorrelation rho. rho is estimated from the differences of
// successive steps, so that a trend does not count, plus one standard error. Where that leaves
// fewer than five steps, or the steps vary more than twice as much as `most_variance` allows, the
// variance of the tenth is what that allows: the rest is change of the policy, not chance
// (docs/theory.md). Values that are not finite are left out.
Change ChangeOver(std::span<const StepMean> steps);

// Compares accuracies of the same prompts, 0 to 1 each, by the adjusted Wald interval of paired
// differences (Agresti and Min, Statistics in Medicine 24, 2005), or, of shares between 0 and 1, by
// Student's of their differences. A prompt without a number on one of the sides is left out;
// nullopt if none is left or the numbers of prompts differ.
std::optional<Change> PairedChange(std::span<const double> before, std::span<const double> after);

struct Learned {
  Change reward;    // the raw reward, over all drawn groups
  Change accuracy;  // of the batches
  std::optional<Change> held_out;
  double unscorable = 0;  // share of the completions
  double taught = 0;      // share of the drawn groups: rewards differ, and the step had an update
  std::string cause;      // the most frequent cause of groups without a signal; empty: not sought
  std::string look_at;    // what to look at first, with a command

  bool rose() const { return Any(ChangeVerdict::kRose); }

  bool fell() const { return Any(ChangeVerdict::kFell); }

  // Whether groups without a signal may be why nothing rose. Those of a policy that got worse are a
  // consequence.
  bool lacked_signal() const { return !rose() && !fell() && taught < 0.5; }

 private:
  bool Any(ChangeVerdict verdict) const {
    return reward.verdict == verdict || accuracy.verdict == verdict ||
           (held_out && held_out->verdict == verdict);
  }
};

// Judges the steps of a run in order. `before` and `after` are accuracies by held-out prompt, as
// PairedChange takes them, or empty; `run` is the run in the commands of `look_at`.
Learned LearnedOf(std::span<const StepMeasurements> steps, std::span<const double> before,
                  std::span<const double> after, std::string_view run);

// {"reward": {"first", "last", "difference", "low", "high", "verdict"}, "accuracy": the same,
// "held_out": with "before" and "after", "unscorable", "taught", "cause", "look_at"}; `held_out`
// and `cause` only where they are known.
nlohmann::ordered_json LearnedJson(const Learned& learned);

// The closing lines of a run.
std::string LearnedText(const Learned& learned);

}  // namespace buttress
