// One forward pass of the policy and the backward pass that follows it, unit by unit.
//
// Autograd never sees the model as a whole. Each unit is a graph of its own, from a detached input
// to its output, and the backward pass is a loop over the units from the last to the first.
//
// Shapes: N packed tokens, M scored tokens, D width. Where ranks divide the rows
// (PassOptions::context), each passes all tokens and gets the output of all, and the units run
// those of the rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/policy/context_group.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// Receives the gradients of a backward pass.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // Adds the gradient of parameter `index` of unit `unit` (Transformer::units()), which has the
  // shape and the dtype of the parameter. Of a unit that stays divided, the process has those of
  // its part.
  virtual void Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) = 0;

  // The same for rows [first, first + gradient.size(0)) of a matrix.
  virtual void AddRows(std::size_t unit, std::size_t index, std::int64_t first,
                       const at::Tensor& gradient) = 0;

  // The same for the rows `rows_U` of a matrix, which are different, in float32.
  virtual void AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                         const at::Tensor& gradient_UD) = 0;

  // The backward pass adds nothing more to the unit. Called for every trainable unit, from the last
  // to the first.
  virtual void Done(std::size_t unit) = 0;
};

// The tokens of a pass, the tensors on the CPU. `lengths` and `prefixes` are those of
// Transformer::Hidden.
struct PassTokens {
  at::Tensor tokens_N;  // on the CPU; elsewhere the backward pass waits for them
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> prefixes;
  at::Tensor rows_M;     // the rows whose hidden states predict the scored tokens; may repeat
  at::Tensor targets_M;  // the scored tokens
};

class ModelPass {
 public:
  // Runs the model. Without gradients (at::NoGradGuard), keeps nothing but the output.
  ModelPass(Transformer& model, const PassTokens& tokens, const PassOptions& options);

  // What the loss is a function of. The tensors are leaves: the units behind them are not part of
  // the graph of the loss.
  const TokenLogprobs& output() const { return output_; }

  // Computes the gradient of `loss`, a scalar, in output(). That of the entropy is undefined if the
  // loss does not depend on it.
  OutputGradient GradientOf(const at::Tensor& loss) const;

  // Adds the gradients of all parameters to `sink`, which of several ranks add up. Frees what a
  // unit kept once it is done. Call it once. REQUIRES: the pass ran with gradients.
  void Backward(const OutputGradient& gradient, GradientSink& sink);

 private:
  // The graph of one unit.
  struct Graph {
    at::Tensor input;
    at::Tensor middle;  // Recompute::kSelective: behind the attention of a block
    at::Tensor output;  // undefined if the backward pass computes it again
  };

  at::Tensor RunBlock(std::size_t block, Recompute recompute, Graph& graph);
  at::Tensor HeadBackward(const OutputGradient& gradient, GradientSink& sink);
  at::Tensor BlockBackward(std::size_t block, const at::Tensor& grad_ND, GradientSink& sink);
  void EmbeddingBackward(const at::Tensor& grad_ND, GradientSink& sink);

  Transformer& model_;
  PackedLayout layout_;
  std::optional<ContextShare> share_;
  at::Tensor tokens_N_;
  std::vector<Graph> blocks_;
  Graph head_norm_;
  std::optional<HeadPass> head_;
  TokenLogprobs output_;
};

}  // namespace buttress
