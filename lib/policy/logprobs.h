// Log-probabilities of given tokens, the entropy of their distributions, and the backward pass
// through both and the head of the model. At most a chunk of the rows of logits exists at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "lib/policy/transformer.h"

namespace buttress {

struct TokenLogprobs {
  at::Tensor
      logprobs_M;        // [M] float32, in nats, of the targets under softmax(logits / temperature)
  at::Tensor entropy_M;  // [M] float32, in nats, over the whole vocabulary; undefined for kNone
};

// kDetached: computed, but a loss of it has no gradient.
enum class EntropyMode { kNone, kDetached, kDifferentiable };

struct PassOptions {
  double temperature = 1;          // that of sampling
  std::int64_t chunk_rows = 1024;  // of logits that exist at a time
  EntropyMode entropy = EntropyMode::kNone;
  // Keeps only the inputs of blocks for the backward pass, which runs each block again (Chen et
  // al., "Training deep nets with sublinear memory cost", arXiv 1604.06174).
  bool recompute = false;
};

// The gradient of a loss in TokenLogprobs, two vectors. One that is undefined is 0 and costs
// nothing.
struct OutputGradient {
  at::Tensor logprobs_M;
  at::Tensor entropy_M;
};

// The head of a model over some hidden states, outside of autograd. Not thread-safe.
class HeadPass {
 public:
  // Receives the gradient of rows [first, first + rows.size(0)) of the head's matrix. The calls of
  // a pass sum up; a row may come several times.
  using AddRows = std::function<void(std::int64_t first, const at::Tensor& rows_vD)>;

  // Scores `targets_M` with the hidden states `hidden_MD` that predict them, after the last norm.
  // `model` must outlive the pass. With gradients enabled, a single chunk keeps its log-probs for
  // Backward, which otherwise computes them again.
  HeadPass(const Transformer& model, const at::Tensor& hidden_MD, const at::Tensor& targets_M,
           const PassOptions& options);

  const TokenLogprobs& output() const { return output_; }

  // Passes the gradient of the head to `add`, in parts so that it never exists as a whole, and
  // returns the gradient in hidden_MD. Call it once.
  at::Tensor Backward(const OutputGradient& gradient, const AddRows& add);

 private:
  at::Tensor LogSoftmax(const at::Tensor& hidden_cD) const;
  at::Tensor GradLogits(const OutputGradient& gradient, std::int64_t first, std::int64_t count);

  const Transformer& model_;
  const at::Tensor hidden_MD_;
  const at::Tensor targets_M_;
  const PassOptions options_;
  TokenLogprobs output_;
  at::Tensor kept_MV_;  // log-probs, if there is one chunk
};

// Scores without gradients.
TokenLogprobs ChunkedLogprobs(const Transformer& model, const at::Tensor& hidden_MD,
                              const at::Tensor& targets_M, const PassOptions& options);

}  // namespace buttress
