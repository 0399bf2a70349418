// Accuracy, pass@k and maj@k of a model folder on a file of prompts. `buttress eval` and `buttress
// launch` run it as `rollout_worker eval`.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "rollout_worker/evaluation/eval_scores.h"

namespace buttress {

struct EvalOptions {
  ModelPathConfig model;
  std::string prompts;
  DataConfig data;
  RewardConfig reward;
  WorkerConfig worker;
  // The seed of completion j of prompt i derives from `sampling.seed` and i * completions + j.
  // DecideStops adds to its stops.
  SamplingParams sampling;
  std::int64_t limit = 0;        // evaluates only the first `limit` prompts; 0 = all
  std::int64_t completions = 1;  // per prompt; more than 1 needs a temperature above 0
};

struct EvalResult {
  std::int64_t prompts = 0;
  std::int64_t completions = 0;
  // Completions.
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;  // not in the accuracy
  std::int64_t truncated = 0;   // cut at max_tokens
  std::int64_t tokens = 0;
  double raw_reward = 0;  // sum over the scorable completions
  double seconds = 0;     // generating and scoring
  EvalScores scores;

  // Returns the share of correct among scorable completions. REQUIRES: one is scorable.
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(correct + wrong);
  }
};

// Returns options with the data, reward, stops and token limits of a run: greedy completions of the
// start model on the held-out prompts.
EvalOptions EvalOptionsOf(const RunConfig& config);

// Samples completions of each prompt and scores them as in training. The result is a function of
// folder, file, options and machine. kDataLoss if no completion is scorable. Throws the exceptions
// of LibTorch.
Result<EvalResult> Evaluate(const EvalOptions& options);

// Runs the command line, where `argv[0]` is "eval", and returns the exit code.
int RunEval(int argc, char** argv);

}  // namespace buttress
