// Accuracy, pass@k and maj@k of a model folder or a server on a file of prompts. `buttress eval`
// and `buttress launch` run it as `rollout_worker eval`. Without torch: LocalModels runs the model
// of a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/measure/eval_results.h"
#include "rollout_worker/evaluation/eval_loop.h"
#include "rollout_worker/evaluation/openai_sampler.h"

namespace buttress {

struct LocalModels;

struct EvalOptions {
  // A Hugging Face folder. With a server its tokenizer and configuration alone are used, and
  // without a path the server gets messages.
  ModelPathConfig model;
  OpenAiOptions server;  // samples instead of this process, if it has a url
  std::string adapter;   // PEFT folder of adapters for the model; empty: none
  std::string prompts;
  DataConfig data;
  RewardConfig reward;
  EnvConfig env;  // makes each completion an episode, whose answers are sampled
  WorkerConfig worker;
  // The seed of completion j of prompt i derives from `sampling.seed` and i * completions + j.
  // DecideStops adds to its stops.
  SamplingParams sampling;
  std::int64_t limit = 0;        // evaluates only the first `limit` prompts; 0 = all
  std::int64_t completions = 1;  // per prompt; more than 1 needs a temperature above 0
  // File of results (EvalFile) that the evaluation continues and appends to; empty: none.
  std::string results;
};

// Returns options with the data, reward, environment, stops and token limits of a run: greedy
// completions of the start model on the held-out prompts.
EvalOptions EvalOptionsOf(const RunConfig& config);

// Samples completions of each prompt and scores them as in training. Prompts that `results` has are
// not repeated; its settings are all that decides a verdict, weights and prompts by their SHA-256.
// The result is a function of folder, file, options and machine, and on a GPU of where it was
// interrupted: other batches round differently. Errors of EvalFile. Without a server errors and
// exceptions of LocalModels, and kInvalidArgument where `models` is null: none. Of a server, errors
// as OpenAiSampler, and its model counts by its name.
Result<EvalResult> Evaluate(const EvalOptions& options, const LocalModels* models);

// Opens the prompts of an evaluation. `settings` are those of the model, empty without `results`;
// the tokenizer outlives the inputs.
using OpenEvalInputs = std::function<Result<EvalInputs>(
    const EvalOptions& options, const Tokenizer& tokenizer, nlohmann::ordered_json settings)>;

// Evaluate with other inputs than those that `options` names, which are opened before the weights
// are loaded. Of the options it reads model, server, worker, environment, sampling, completions
// and what a verdict takes.
Result<EvalResult> EvaluateInputs(const EvalOptions& options, const LocalModels* models,
                                  const OpenEvalInputs& open);

// Errors of CheckEpisodes, if completions are episodes.
Status CheckConversations(const EvalOptions& options);

// RunEvaluation with a sampler of completions, with which episodes sample too.
Result<EvalResult> SampleAndScore(const EvalOptions& options, const EvalInputs& inputs,
                                  const SamplingParams& sampling, const Tokenizer& tokenizer,
                                  EvalSampler& sampler);

// Adds what decides the episodes of a file of results, if there are any.
void AddEpisodeSettings(const EnvConfig& env, nlohmann::ordered_json& settings);

// Runs the command line, where `argv[0]` is "eval", and returns the exit code.
int RunEval(int argc, char** argv, const LocalModels* models);

}  // namespace buttress
