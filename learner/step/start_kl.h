// The drift of the policy from its start model, for a run that keeps no reference model. Torch.
#pragma once

#include <cstdint>
#include <span>

#include "learner/step/micro_batch.h"
#include "learner/step/step_state.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/model_pass.h"
#include "lib/policy/transformer.h"

namespace buttress {

// Returns the first scorable completions of `groups` within the bounds, trained tokens and tokens
// of the pass with the prompts, and at least one; an empty batch if there is none. Pure.
TokenBatch FirstCompletions(std::span<const FetchedGroup> groups, std::int64_t trained_tokens,
                            std::int64_t pass_tokens);

// Returns KL(model || start model) in nats per trained token of `batch`, estimator k3
// (lib/rl/loss/kl.h). Reads the start model block by block, on the device of `model`, unless
// `model` is that with adapters. The errors of Transformer::Load and of reading; an exception of
// LibTorch becomes OutOfMemory or kInternal. Where `model` is divided, every rank calls it.
// REQUIRES: `batch` is not empty.
Result<double> MeasureStartKl(Transformer& model, const ModelPathConfig& start,
                              const TokenBatch& batch, const PassOptions& options);

}  // namespace buttress
