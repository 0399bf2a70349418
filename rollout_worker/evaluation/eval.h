// Accuracy, pass@k and maj@k of a model folder on a file of prompts. `buttress eval` and `buttress
// launch` run it as `rollout_worker eval`.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/rl/eval/pass_at_k.h"
#include "lib/verify/verifier.h"

namespace buttress {

// Scores of an evaluation over its prompts: pass@k, maj@k, avg@k. Not thread-safe.
class EvalScores {
 public:
  // Adds the verdict of a completion of prompt `row`. Rates ignore unscorable completions.
  void Add(std::int64_t row, const Verdict& verdict);

  // Returns pass@k over the prompts with at least k scored completions. REQUIRES: 1 <= k <=
  // kMaxVotes.
  Estimate PassAt(std::int64_t k) const;

  // Returns maj@k over the prompts with at least k scored completions. Answers are equal if their
  // texts are; if the verdicts of an answer differ, the more frequent verdict counts. A completion
  // without an extracted answer has no vote. REQUIRES: 1 <= k <= kMaxVotes.
  Estimate MajAt(std::int64_t k) const;

  // Returns the share of correct completions of a prompt, averaged over the prompts with a scored
  // completion.
  Estimate Avg() const;

  // Returns the share of correct completions by row, up to the last row; NaN for a row without a
  // scored completion.
  std::vector<double> ByRow() const;

 private:
  struct Answer {
    std::int64_t correct = 0;
    std::int64_t wrong = 0;
  };

  struct PromptScores {
    Successes successes;
    std::int64_t blank = 0;  // completions without an extracted answer
    std::map<std::string, Answer> answers;
  };

  std::map<std::int64_t, PromptScores> prompts_;  // by row
};

// Returns 1, 2, 4, ... below n, and n.
std::vector<std::int64_t> PowersUpTo(std::int64_t n);

struct EvalOptions {
  ModelPathConfig model;
  std::string adapter;  // PEFT folder of adapters for the model; empty: none
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
