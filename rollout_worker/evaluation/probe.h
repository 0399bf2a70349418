// A run before its start: a random sample of its prompts through its model and its verifiers, which
// `buttress probe` reports (probe_report.h, docs/probe.md). With run.env, completions are episodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_results.h"
#include "rollout_worker/evaluation/openai_sampler.h"
#include "rollout_worker/evaluation/reference_model.h"

namespace buttress {

struct LocalModels;

struct ProbeOptions {
  RunConfig config;
  OpenAiOptions server;  // samples instead of run.model.path, if it has a url
  std::int64_t prompts = 200;
  std::int64_t completions = 16;  // of a prompt, 2 or more
  std::uint64_t seed = 1;         // of the sample and of its completions
  std::string results;            // as EvalOptions::results
  // Folder of a model that reads the completions as well, whose tokens must be known: they are no
  // episodes, and no server samples them; empty: none.
  std::string reference;
};

struct ProbedPrompt {
  std::string source;
  std::vector<EvalCompletion> completions;
  bool has_answers = true;  // the verifier reads them in responses; others report something else
};

// Responses of known verdict (lib/verify/audit/controls.h) that the verifiers judged.
struct ControlCount {
  std::int64_t tried = 0;
  std::int64_t failed = 0;
  std::string example;  // the first failure: response and reference
};

// Sums over the completions of a prompt.
struct SampledTokens {
  double tokens = 0;
  double logprob = 0;  // nats
  ReferenceSums reference;
};

struct ProbeFacts {
  std::vector<ProbedPrompt> prompts;
  std::uint64_t rows = 0;  // of the datasets
  double seconds = 0;      // sampling and scoring, over all starts
  ControlCount gold;       // reference answers, which must be right
  ControlCount spoiled;    // other answers, which must be wrong
  // Of the prompts that this process sampled, if the sampler gives log-probs: not of episodes.
  std::vector<SampledTokens> sampled;
  std::string reference;  // of the options
};

// Draws the prompts as a run does, the sources by their weights and each in a random order that
// differs from the run's, and samples with the settings of the run. Of one dataset every prompt is
// drawn once at most; of several no more are drawn than all have, and a short one begins again.
// Errors: those of EvaluateInputs and of ReferenceModel; kInvalidArgument for datasets without a
// prompt that can be used. Without a server, REQUIRES `models` if there is a reference.
Result<ProbeFacts> RunProbe(const ProbeOptions& options, const LocalModels* models);

// Runs the command line, where `argv[0]` is "probe", and returns the exit code.
int RunProbeCommand(int argc, char** argv, const LocalModels* models);

}  // namespace buttress
