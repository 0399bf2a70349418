// One forward and backward pass: the completions that run together, with everything that the loss
// needs for each of their trained tokens. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learner/step/step_state.h"
#include "learner/step/token_batch.h"

namespace buttress {

// C completions, M trained tokens, completion after completion.
struct MicroBatch {
  TokenBatch tokens;
  std::vector<std::size_t> rows;        // [C] rows of the step
  std::vector<std::int64_t> lengths;    // [C] trained tokens
  std::vector<float> sampler_logprobs;  // [M]
  // [M] as the step keeps them, or empty
  std::vector<float> old_logprobs;
  std::vector<float> reference_logprobs;
  std::vector<float> advantages;       // [M]
  std::vector<float> weights;          // [M]
  std::vector<std::uint8_t> marked;    // [M] for clip_cov and kl_cov, or empty
  std::vector<std::uint8_t> constant;  // [M] the raw rewards of the group are all equal
};

// Returns micro-batch `round` of `update` of this rank; it is empty if the rank has fewer. Pure.
MicroBatch GatherMicroBatch(const StepState& state, std::int32_t update, std::int32_t round);

// Replaces the advantages of tokens by those that depend on their entropy
// (lib/rl/advantage/estimators.h), which is known only after the forward pass. entropy_M is in
// nats. Waits for the device.
void ApplyEntropyAdvantages(const Assignment& assignment, const at::Tensor& entropy_M,
                            MicroBatch& batch);

}  // namespace buttress
