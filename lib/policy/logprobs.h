// Log-probabilities of given tokens, the entropy of their distributions, and the backward pass
// through both and the head of the model. The logits of all rows exist for a block of the
// vocabulary at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/config/sections/local_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

class ContextGroup;

struct TokenLogprobs {
  at::Tensor
      logprobs_M;        // [M] float32, in nats, of the targets under softmax(logits / temperature)
  at::Tensor entropy_M;  // [M] float32, in nats, over the whole vocabulary; undefined for kNone
};

// kDetached: computed, but a loss of it has no gradient.
enum class EntropyMode { kNone, kDetached, kDifferentiable };

struct PassOptions {
  double temperature = 1;  // that of sampling
  EntropyMode entropy = EntropyMode::kNone;
  // kBlock keeps the inputs of blocks for the backward pass, which runs each block again (Chen et
  // al., "Training deep nets with sublinear memory cost", arXiv 1604.06174); kSelective keeps the
  // first half of a block, and runs the MLP again, whose activations are the largest and do not
  // cost more in long sequences (after Korthikanti et al., arXiv 2205.05198, section 5).
  Recompute recompute = Recompute::kNone;
  std::int64_t vocabulary_block = 4096;  // columns of logits at a time, of up to 2^14 rows
  // Logits that are kept for the backward pass, which computes more than these again.
  std::int64_t kept_logits = std::int64_t{1} << 27;
  // The ranks that divide the rows of the pass, which all run it at the same time; null for one.
  ContextGroup* context = nullptr;
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
  // a pass sum up.
  using AddRows = std::function<void(std::int64_t first, const at::Tensor& rows_vD)>;

  // Scores `targets_M` with the hidden states `hidden_MD` that predict them, after the last norm.
  // `model` must outlive the pass. With gradients enabled, up to options.kept_logits logits are
  // kept for Backward.
  HeadPass(const Transformer& model, const at::Tensor& hidden_MD, const at::Tensor& targets_M,
           const PassOptions& options);

  const TokenLogprobs& output() const { return output_; }

  // Passes the gradient of the head to `add`, in parts so that it never exists as a whole, unless
  // that is null, and returns the gradient in hidden_MD, which is summed in float32. Call it once.
  at::Tensor Backward(const OutputGradient& gradient, const AddRows& add);

 private:
  // Columns [first, first + count) of the vocabulary.
  struct Block {
    std::size_t index = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  void ScoreRowWise(bool keep);
  std::vector<Block> Blocks() const;
  at::Tensor Logits(const Block& block) const;
  at::Tensor GradLogits(const OutputGradient& gradient, const Block& block);

  const Transformer& model_;
  const at::Tensor hidden_MD_;
  const at::Tensor targets_M1_;
  const PassOptions options_;
  TokenLogprobs output_;
  at::Tensor lse_M1_;             // log of the sum of the exponentials of the logits
  std::vector<at::Tensor> kept_;  // logits [M, count] by block, if there are few
};

// Scores without gradients.
TokenLogprobs ScoreTokens(const Transformer& model, const at::Tensor& hidden_MD,
                          const at::Tensor& targets_M, const PassOptions& options);

}  // namespace buttress
