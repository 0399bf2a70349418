// Accuracy, pass@k and maj@k of a model folder on a file of prompts: `rollout_worker eval`, which
// `buttress eval` and `buttress launch` run.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "rollout_worker/eval_scores.h"

namespace buttress {

struct EvalOptions {
  ModelPathConfig model;
  std::string prompts;
  DataConfig data;
  RewardConfig reward;
  WorkerConfig worker;
  SamplingParams
      // completion j of prompt i is sampled with a seed made of `seed` and i * completions + j
      sampling;
  std::int64_t limit = 0;        // first prompts only; 0 = all
  std::int64_t completions = 1;  // of each prompt; above 1 needs a temperature above 0
};

struct EvalResult {
  std::int64_t prompts = 0;
  std::int64_t completions = 0;
  std::int64_t correct = 0;  // completions, as all that follows
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;  // in neither part of the accuracy
  std::int64_t truncated = 0;   // cut at max_tokens
  std::int64_t tokens = 0;
  double seconds = 0;  // generating and scoring
  EvalScores scores;

  // Correct over scorable. REQUIRES: one is scorable.
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(correct + wrong);
  }
};

// The completions of each prompt, scored as in training. The same folder, file, options and machine
// give the same result. kDataLoss when nothing could be scored. Throws what LibTorch throws.
Result<EvalResult> Evaluate(const EvalOptions& options);

// The command line; `argv[0]` is "eval". Returns the exit code.
int RunEval(int argc, char** argv);

}  // namespace buttress
