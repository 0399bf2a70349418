// What one forward and backward pass runs. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "learner/step/step_state.h"
#include "lib/experience/types.h"
#include "lib/policy/model_pass.h"
#include "lib/policy/transformer.h"
#include "lib/rl/micro_batch_shape.h"

namespace buttress {

// Prompts and completions packed for one forward pass, with the rows whose hidden states predict
// the trained tokens: N packed tokens, M trained tokens.
class TokenBatch {
 public:
  // Appends one sequence. Consecutive sequences with the same prompt share the rows of the prompt.
  // The tokens of `completion` inside `spans` are trained, all of them if `spans` is empty. The
  // last token is a target but no input, because it predicts nothing. REQUIRES: prompt and
  // completion are not empty, spans lie within the completion.
  void Add(std::span<const std::int32_t> prompt, std::span<const std::int32_t> completion,
           std::span<const TokenSpan> spans);

  bool empty() const { return lengths_.empty(); }

  std::int64_t input_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  std::int64_t trained_tokens() const { return static_cast<std::int64_t>(targets_.size()); }

  MicroBatchShape shape() const;

  // Runs the model over the sequences, which are scored one after another.
  ModelPass Run(Transformer& model, const PassOptions& options) const;

 private:
  bool ContinuesLastPrompt(std::span<const std::int32_t> prompt) const;

  // The arguments of Transformer::Hidden. The first completion of the last prompt is in one
  // sequence with the prompt until a second completion of that prompt arrives.
  std::vector<std::int64_t> tokens_;    // [N]
  std::vector<std::int64_t> lengths_;   // of the sequences; their sum is N
  std::vector<std::int64_t> prefixes_;  // the sequence that each one continues, or -1
  std::int64_t prompt_sequence_ = -1;   // the sequence of the last prompt
  std::int64_t prompt_row_ = 0;         // the first row of the last prompt
  std::int64_t prompt_length_ = 0;
  std::vector<std::int64_t> rows_;     // [M] row of N that predicts each trained token
  std::vector<std::int64_t> targets_;  // [M]
};

// Two tokens for a rank that has none while others gather weights for theirs.
TokenBatch FillerTokens();

// The completions that run together, with everything that the loss needs for each of their trained
// tokens: C completions, M trained tokens, completion after completion.
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
// (lib/rl/advantage/advantage.h), which is known only after the forward pass. entropy_M is in
// nats. Waits for the device.
void ApplyEntropyAdvantages(const Assignment& assignment, const at::Tensor& entropy_M,
                            MicroBatch& batch);

}  // namespace buttress
