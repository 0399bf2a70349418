// Log-probabilities and entropy of given tokens, chunked over rows so that no [N, V] is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/transformer.h"

namespace buttress {

struct TokenLogprobs {
  at::Tensor
      logprobs_M;  // [M] float32, of targets under softmax(logits / temperature); differentiable
  at::Tensor entropy_M;  // [M] float32, exact, nats; undefined unless asked for
};

enum class EntropyMode { kNone, kDetached, kDifferentiable };

// Rows of `hidden_MD` predict `targets_M`. At most `chunk_rows` rows of logits exist at a time, in
// the backward pass too (they are recomputed). Temperature scales logits as sampling did.
TokenLogprobs ChunkedLogprobs(Transformer& model, const at::Tensor& hidden_MD,
                              const at::Tensor& targets_M, double temperature,
                              std::int64_t chunk_rows, EntropyMode entropy);

}  // namespace buttress
