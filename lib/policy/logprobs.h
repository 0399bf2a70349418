// Log-probabilities of given tokens, and the entropy of their distributions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/transformer.h"

namespace buttress {

struct TokenLogprobs {
  at::Tensor
      logprobs_M;        // [M] float32, in nats, of the targets under softmax(logits / temperature)
  at::Tensor entropy_M;  // [M] float32, in nats, over the whole vocabulary; undefined for kNone
};

enum class EntropyMode { kNone, kDetached, kDifferentiable };

// Computes the log-probs of `targets_M` from the hidden states `hidden_MD` that predict them. At
// most `chunk_rows` rows of logits exist at a time; the backward pass computes them again.
// `temperature` must be that of sampling. The log-probs are differentiable.
TokenLogprobs ChunkedLogprobs(Transformer& model, const at::Tensor& hidden_MD,
                              const at::Tensor& targets_M, double temperature,
                              std::int64_t chunk_rows, EntropyMode entropy);

}  // namespace buttress
