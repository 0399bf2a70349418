// The loop of an evaluation: completions from a sampler, verdicts from the verifiers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/data/prompt_file.h"
#include "lib/experience/types.h"
#include "lib/measure/eval_results.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {

// The prompts of an evaluation, and what scores and keeps their completions.
struct EvalInputs {
  std::int64_t rows = 0;
  // Returns the same prompt for a row whenever it is asked; kOutOfRange for one that is left out.
  std::function<Result<Prompt>(std::int64_t row)> read;
  std::map<std::string, std::int32_t> max_tokens = {};  // by source, where it has its own
  std::shared_ptr<const VerifierSet> verifiers;
  std::unique_ptr<EvalFile> results = nullptr;  // null: not kept
  // Receive the completions of a prompt as they were sampled, which those of `results` were not,
  // and their verdicts. May be null.
  std::function<Status(const Prompt&, std::span<const SampledCompletion>)> on_sampled = nullptr;
  std::function<void(const EvalPrompt&)> on_scored = nullptr;
};

// Samples `completions` of each prompt and scores each as `reward` says. Reports progress to the
// log. The seed of completion j of row i derives from `sampling.seed` and i * completions + j.
// kCancelled if the process is asked to end; errors of the inputs and of the sampler.
Result<EvalResult> RunEvaluation(const EvalInputs& inputs, const SamplingParams& sampling,
                                 std::int64_t completions, const RewardConfig& reward,
                                 const Tokenizer& tokenizer, EvalSampler& sampler);

}  // namespace buttress
