// The forward pass of one transformer block, for training and for generation.
//
// Shapes: N packed rows, D width, H query heads, K key-value heads, C values of a head, E experts,
// F width of an MLP.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/policy/layers/block_spec.h"
#include "lib/policy/layers/mlp.h"
#include "lib/policy/layers/rope.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"

namespace buttress {

// The matrix products of a block: training multiplies with the parameters, generation with copies
// in a faster layout. Each returns a tensor that shares no memory with its argument.
class BlockProducts {
 public:
  virtual ~BlockProducts() = default;

  virtual at::Tensor Qkv(const at::Tensor& x_ND) const = 0;      // [N, (H + 2K) * C]
  virtual at::Tensor Out(const at::Tensor& attended) const = 0;  // [N, H * C] to [N, D]
  virtual at::Tensor Router(const at::Tensor& x_ND) const = 0;   // [N, E] in float32

  // Of MLP `mlp`: [N, 2F], and [N, F] to [N, D].
  virtual at::Tensor GateUp(std::size_t mlp, const at::Tensor& x_ND) const = 0;
  virtual at::Tensor Down(std::size_t mlp, const at::Tensor& gated_NF) const = 0;

  // The experts where one kernel multiplies with those of this process (GroupedLinear); else null.
  virtual const std::vector<MlpWeights>* grouped() const { return nullptr; }

  // The processes that divide the MLPs, which here are those of this process; null if it has all.
  virtual ExpertPeers* peers() const { return nullptr; }
};

// Multiplies with the parameters, row by row as Linear does with `row_wise`. Differentiable.
// `weights` must outlive it.
class ParameterProducts final : public BlockProducts {
 public:
  explicit ParameterProducts(const LayerWeights& weights, ExpertPeers* peers = nullptr,
                             bool row_wise = false)
      : w_(weights), peers_(peers), row_wise_(row_wise) {}

  at::Tensor Qkv(const at::Tensor& x_ND) const override;
  at::Tensor Out(const at::Tensor& attended) const override;
  at::Tensor Router(const at::Tensor& x_ND) const override;
  at::Tensor GateUp(std::size_t mlp, const at::Tensor& x_ND) const override;
  at::Tensor Down(std::size_t mlp, const at::Tensor& gated_NF) const override;

  const std::vector<MlpWeights>* grouped() const override;

  ExpertPeers* peers() const override { return peers_; }

 private:
  const LayerWeights& w_;
  ExpertPeers* const peers_;
  const bool row_wise_;
};

// The rows of a pass, and what their queries attend to: the rows of packed sequences, or a cache.
class BlockRows {
 public:
  virtual ~BlockRows() = default;

  virtual const at::Tensor& positions_N() const = 0;  // int64
  virtual std::int64_t end() const = 0;               // one past the largest position

  // Maps qkv [N, (H + 2K) * C], the rotated queries and keys and the values of each row side by
  // side, to [N, H * C]. `layer` is the index of the block.
  virtual at::Tensor Attend(const AttentionSpec& spec, std::size_t layer,
                            const at::Tensor& qkv) = 0;
};

// The rotary embeddings of a model, which BlockSpec::rope indexes.
std::vector<RopeTable> RopeTables(const ModelConfig& config, at::Device device);

// Scales the embeddings of tokens as the model does. Differentiable.
at::Tensor ScaleEmbeddings(const ModelConfig& config, const at::Tensor& rows_ND);

// Maps the hidden states [N, D] before block `layer` to those after it. Differentiable if the
// products and the rows are. `norms` needs the norm weights alone.
at::Tensor BlockForward(const BlockSpec& spec, std::size_t layer, const LayerWeights& norms,
                        const BlockProducts& products, std::vector<RopeTable>& ropes,
                        BlockRows& rows, const at::Tensor& hidden_ND);

// Its two halves: the hidden states with what attention adds to them, `middle_ND`, and those with
// what the MLP adds.
at::Tensor AttentionForward(const BlockSpec& spec, std::size_t layer, const LayerWeights& norms,
                            const BlockProducts& products, std::vector<RopeTable>& ropes,
                            BlockRows& rows, const at::Tensor& hidden_ND);
at::Tensor MlpForward(const BlockSpec& spec, const LayerWeights& norms,
                      const BlockProducts& products, const at::Tensor& middle_ND);

}  // namespace buttress
