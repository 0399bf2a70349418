// Settings of prompt selection, of groups without a signal, and of the learner's alarms.
#pragma once

#include <cstdint>
#include <string>

#include "lib/config/choice.h"

namespace buttress {

// What happens to groups whose rewards are all equal.
enum class ZeroVariancePolicy : std::uint8_t { kKeep, kMask, kResample, kVirtual };

template <>
inline constexpr ChoiceRow<ZeroVariancePolicy> kChoices<ZeroVariancePolicy>[] = {
    {ZeroVariancePolicy::kKeep, "keep", "the estimator decides"},
    {ZeroVariancePolicy::kMask, "mask", "in no loss, no denominator"},
    {ZeroVariancePolicy::kResample, "resample", "replaced by other prompts, up to a cap"},
    {ZeroVariancePolicy::kVirtual, "virtual", "advantage: avspo"},
};

// Which prompts are passed over by their history.
enum class SelectionMode : std::uint8_t { kNone, kGreso, kSpeed, kMopps };

template <>
inline constexpr ChoiceRow<SelectionMode> kChoices<SelectionMode>[] = {
    {SelectionMode::kNone, "none"},
    {SelectionMode::kGreso, "greso", "constant again and again"},
    {SelectionMode::kSpeed, "speed", "constant last time"},
    {SelectionMode::kMopps, "mopps", "far from a success rate"},
};

// Dynamic sampling of DAPO (arXiv 2503.14476), with bounds that the paper does not have. The cap is
// that of its released recipe (max_num_gen_batches), which fails where the plan is filled here.
struct ResampleConfig {
  std::int64_t cap = 10;
  std::int64_t budget = 0;

  template <class V>
  void Visit(V& v) {
    v("cap", cap,
      "bound of the groups replaced for a step, in units of P; beyond it constant groups fill the "
      "plan, masked");
    v("budget", budget, "bound of the groups replaced in the whole run; 0 = no bound");
  }
};

// GRESO (arXiv 2506.02177); the defaults are the released code's.
struct GresoConfig {
  double keep_easy = 0.5;
  double keep_hard = 0.5;
  double target = 0.25;

  template <class V>
  void Visit(V& v) {
    v("keep_easy", keep_easy,
      "first base of the chance to draw an all-correct prompt again: base ^ (all-correct groups in "
      "a row)");
    v("keep_hard", keep_hard, "the same for all-wrong prompts");
    v("target", target,
      "share of constant groups that the bases are moved towards: a third of it easy, two thirds "
      "hard");
  }
};

// After SPEED (arXiv 2506.09016), with the last group of a prompt as its screening.
struct SpeedConfig {
  std::int64_t rest = 1;

  template <class V>
  void Visit(V& v) {
    v("rest", rest,
      "passes over the dataset for which a prompt whose last group was constant is left out");
  }
};

// MoPPS (arXiv 2507.04632); the defaults are the released code's.
struct MoppsConfig {
  std::int64_t candidates = 4;
  double target = 0.5;
  double decay = 1.0;

  template <class V>
  void Visit(V& v) {
    v("candidates", candidates, "prompts of which one is drawn");
    v("target", target, "success rate that is wanted");
    v("decay", decay, "weight of older results at each new group, 1 = all count alike");
  }
};

struct SelectionConfig {
  SelectionMode mode = SelectionMode::kNone;
  GresoConfig greso;
  SpeedConfig speed;
  MoppsConfig mopps;

  template <class V>
  void Visit(V& v) {
    v("mode", mode, "prompts passed over by their history");
    v("greso", greso, "mode greso");
    v("speed", speed, "mode speed");
    v("mopps", mopps, "mode mopps");
  }
};

// When the learner raises an alarm. An alarm changes nothing in the training.
struct AlarmConfig {
  double entropy_floor = 0.5;
  std::int64_t entropy_steps = 50;
  double entropy_fall = 0.5;
  std::int64_t trend_steps = 50;
  double kl_limit = 0.1;
  double distinct_floor = 0.25;
  double acr_limit = 0.9;
  double unscorable_limit = 0.1;
  double truncated_limit = 0.5;
  double length_factor = 3.0;
  double disagreement_limit = 0.05;

  template <class V>
  void Visit(V& v) {
    v("entropy_floor", entropy_floor,
      "entropy_low: entropy in nats per token below which a step counts");
    v("entropy_steps", entropy_steps,
      "entropy_low: steps in a row that may count before the alarm is raised");
    v("entropy_fall", entropy_fall,
      "entropy_falling: share of the entropy that the line through the last trend_steps steps "
      "loses");
    v("trend_steps", trend_steps, "steps of that line");
    v("kl_limit", kl_limit,
      "kl_drift: moving average of the KL of sampler and learner, or of start model and learner, "
      "or the newest start_kl, in nats per token");
    v("distinct_floor", distinct_floor,
      "responses_alike: moving average of the share of distinct responses in a group");
    v("acr_limit", acr_limit, "collapse: moving average of acr_effective; 1 = never");
    v("unscorable_limit", unscorable_limit,
      "unscorable: moving average of the share of completions without a verdict; 1 = never");
    v("truncated_limit", truncated_limit,
      "truncated: moving average of the share of completions at the token limit; 1 = never");
    v("length_factor", length_factor,
      "length_drift: factor, up or down, between the moving average of the length and the mean of "
      "the first ten steps");
    v("disagreement_limit", disagreement_limit,
      "verifiers_disagree: moving average of the share of twice verified completions "
      "(run.reward.second) on which the verdicts differ; 1 = never");
  }
};

// The KL of the policy against the start model of a run without a KL coefficient, which keeps no
// reference model. Measuring changes nothing in the training.
struct StartKlConfig {
  std::int64_t every = 0;
  std::int64_t tokens = 4096;

  template <class V>
  void Visit(V& v) {
    v("every", every,
      "steps between two measurements, of which the first is at the first step after a start of "
      "the learner; 0 = never. Rank 0 then holds the start model (run.model.path) next to its own "
      "for the time of the measurement, while the other ranks wait");
    v("tokens", tokens,
      "trained tokens of rank 0's newest completions at most, and at least one "
      "completion");
  }
};

// When the learner ends a run that learns nothing. Steps count in a row, from the start of the
// learner; 0 steps: never.
struct StopWhenConfig {
  double unscorable = 1;
  std::int64_t unscorable_steps = 5;
  std::int64_t uninformative_steps = 100;
  std::int64_t unchanged_steps = 100;

  template <class V>
  void Visit(V& v) {
    v("unscorable", unscorable,
      "share of the completions of a step without a verdict from which it counts");
    v("unscorable_steps", unscorable_steps, "such steps in a row that end the run; 0 = never");
    v("uninformative_steps", uninformative_steps,
      "steps in a row without a group of differing raw rewards that end the run, as a success if "
      "all were correct; 0 = never");
    v("unchanged_steps", unchanged_steps,
      "steps in a row in which no weight changed that end the run; 0 = never");
  }
};

}  // namespace buttress
