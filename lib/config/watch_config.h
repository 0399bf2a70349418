// Settings of evaluations during the run, and of which checkpoints are kept.
#pragma once

#include <cstdint>

namespace buttress {

// The accuracy on data.held_out during the run.
struct EvalConfig {
  std::int64_t every = 0;
  std::int64_t prompts = 0;
  std::int64_t samples = 1;
  double temperature = 0.0;

  template <class V>
  void Visit(V& v) {
    v("every", every,
      "steps between evaluations of the weights on data.held_out, during the training; 0 = only "
      "before and after it");
    v("prompts", prompts, "held-out prompts that are evaluated, from the first on; 0 = all");
    v("samples", samples, "completions of each; more than 1 needs a temperature");
    v("temperature", temperature, "sampling temperature of the evaluations; 0 = greedy");
  }
};

// Which checkpoints are kept.
struct CheckpointsConfig {
  std::int64_t keep_last = 2;
  std::int64_t keep_best = 0;

  template <class V>
  void Visit(V& v) {
    v("keep_last", keep_last,
      "newest checkpoints that are kept; at least 2, so that a damaged one has one before it");
    v("keep_best", keep_best,
      "best checkpoints that are kept besides them: by the accuracy of run.eval, or where there is "
      "none by the mean reward of the steps since the checkpoint before; the best model is also "
      "exported to <out>/best; 0 = off");
  }
};

}  // namespace buttress
