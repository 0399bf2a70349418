// Settings of what watches a run: evaluations, alarms, the drift from the start model, when a run
// that learns nothing ends, and which checkpoints are kept.
#pragma once

#include <cstdint>

#include "lib/config/limits.h"

namespace buttress {

// The accuracy on data.held_out during the run.
struct EvalConfig {
  std::int64_t every = 0;
  std::int64_t prompts = 0;
  std::int64_t samples = 1;
  double temperature = 0.0;

  void Visit(auto& v) {
    v("every", every,
      "steps between evaluations of the weights on data.held_out, during the training; 0 = only "
      "before and after it",
      MayChange(AtLeast(0)));
    v("prompts", prompts, "held-out prompts that are evaluated, from the first on; 0 = all",
      MayChange(AtLeast(0)));
    v("samples", samples, "completions of each; more than 1 needs a temperature",
      MayChange(Between(1, 1024)));
    v("temperature", temperature, "sampling temperature of the evaluations; 0 = greedy",
      MayChange(AtLeast(0)));
  }
};

// Which checkpoints are kept.
struct CheckpointsConfig {
  std::int64_t keep_last = 2;
  std::int64_t keep_best = 0;

  void Visit(auto& v) {
    v("keep_last", keep_last,
      "newest checkpoints that are kept; at least 2, so that a damaged one has one before it",
      MayChange(Between(2, 10000)));
    v("keep_best", keep_best,
      "best checkpoints that are kept besides them: by the accuracy of run.eval, or where there is "
      "none by the mean reward of the steps since the checkpoint before; the best model is also "
      "exported to <out>/best; 0 = off",
      MayChange(Between(0, 10000)));
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

  void Visit(auto& v) {
    v("entropy_floor", entropy_floor,
      "entropy_low: entropy in nats per token below which a step counts", AtLeast(0));
    v("entropy_steps", entropy_steps,
      "entropy_low: steps in a row that may count before the alarm is raised", AtLeast(0));
    v("entropy_fall", entropy_fall,
      "entropy_falling: share of the entropy that the line through the last trend_steps steps "
      "loses",
      kShare);
    v("trend_steps", trend_steps, "steps of that line", Between(3, 100000));
    v("kl_limit", kl_limit,
      "kl_drift: moving average of the KL of sampler and learner, or of start model and learner, "
      "or the newest start_kl, in nats per token");
    v("distinct_floor", distinct_floor,
      "responses_alike: moving average of the share of distinct responses in a group", kRate);
    v("acr_limit", acr_limit,
      "collapse: moving average of acr; no_gradient: of acr_effective; 1 = never", kRate);
    v("unscorable_limit", unscorable_limit,
      "unscorable: moving average of the share of completions without a verdict; 1 = never", kRate);
    v("truncated_limit", truncated_limit,
      "truncated: moving average of the share of completions at the token limit; 1 = never", kRate);
    v("length_factor", length_factor,
      "length_drift: factor, up or down, between the moving average of the length and the mean of "
      "the first ten steps");
    v("disagreement_limit", disagreement_limit,
      "verifiers_disagree: lower end of the 95 % interval of the share of completions verified "
      "twice "
      "(run.reward.second) on which the verdicts differ; 1 = never",
      kRate);
  }
};

// The KL of the policy against the start model of a run without a KL coefficient, which keeps no
// reference model. Measuring changes nothing in the training.
struct StartKlConfig {
  std::int64_t every = 0;
  std::int64_t tokens = 4096;

  void Visit(auto& v) {
    v("every", every,
      "steps between two measurements, of which the first is at the first step after a start of "
      "the learner; 0 = never. Rank 0 then runs the start model (run.model.path), which it reads "
      "block by block, while the other ranks wait",
      AtLeast(0));
    v("tokens", tokens,
      "trained tokens of rank 0's newest completions at most, and at least one "
      "completion",
      AtLeast(1));
  }
};

// When the learner ends a run that learns nothing. Steps count in a row, from the start of the
// learner; 0 steps: never.
struct StopWhenConfig {
  double unscorable = 0.9;
  std::int64_t unscorable_steps = 5;
  double uninformative = 0.99;
  std::int64_t uninformative_steps = 100;
  std::int64_t unchanged_steps = 100;

  void Visit(auto& v) {
    v("unscorable", unscorable,
      "share of the completions of a step without a verdict from which it counts", kShare);
    v("unscorable_steps", unscorable_steps, "such steps in a row that end the run; 0 = never",
      AtLeast(0));
    v("uninformative", uninformative,
      "share of the groups of uninformative_steps steps, those whose deciding rewards do not "
      "differ, "
      "from which these steps end the run",
      kShare);
    v("uninformative_steps", uninformative_steps,
      "steps in a row that are judged together; they end the run as a success if the same share of "
      "the groups was all correct; 0 = never",
      AtLeast(0));
    v("unchanged_steps", unchanged_steps,
      "steps in a row in which no weight changed that end the run; 0 = never", AtLeast(0));
  }
};

}  // namespace buttress
