// Prompts and completions packed for one forward pass, with the rows whose hidden states predict
// trained tokens. Torch.
//
// Shapes: N packed tokens, M trained tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lib/experience/types.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"

namespace buttress {

class TokenBatch {
 public:
  // Appends one sequence. Sequences with the same prompt that follow one another share its rows.
  // Tokens of `completion` inside `spans` are trained; no spans: all of them. The last token
  // predicts nothing, so it is a target but no input. REQUIRES: prompt and completion not empty,
  // spans within the completion.
  void Add(std::span<const std::int32_t> prompt, std::span<const std::int32_t> completion,
           std::span<const TokenSpan> spans);

  bool empty() const { return lengths_.empty(); }

  std::int64_t input_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  std::int64_t trained_tokens() const { return static_cast<std::int64_t>(targets_.size()); }

  // Log-probs [M] of the trained tokens, sequence after sequence.
  TokenLogprobs Run(Transformer& model, double temperature, std::int64_t chunk_rows,
                    EntropyMode entropy) const;

 private:
  bool ContinuesLastPrompt(std::span<const std::int32_t> prompt) const;

  // As Transformer::Hidden has them. The last prompt's first completion stands in one sequence with
  // it until a second one comes.
  std::vector<std::int64_t> tokens_;    // [N]
  std::vector<std::int64_t> lengths_;   // sum N
  std::vector<std::int64_t> prefixes_;  // the sequence that each continues, or -1
  std::int64_t prompt_sequence_ = -1;   // the last prompt's
  std::int64_t prompt_row_ = 0;         // its first row
  std::int64_t prompt_length_ = 0;
  std::vector<std::int64_t> rows_;     // [M] row of N that predicts each trained token
  std::vector<std::int64_t> targets_;  // [M]
};

}  // namespace buttress
