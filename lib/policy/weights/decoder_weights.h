// The tensors of a decoder by role, and the names and shapes of a block's tensors in a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// D width, F width of the MLP.
struct MlpWeights {
  at::Tensor gate_weight, up_weight;  // [F, D]
  at::Tensor down_weight;             // [D, F]
};

// D width, H query heads, K key-value heads, C values of a head, E experts. A tensor that the
// BlockSpec excludes is undefined.
struct LayerWeights {
  at::Tensor input_norm_D;
  at::Tensor q_weight, q_bias;  // [H*C, D], [H*C]
  at::Tensor k_weight, k_bias;  // [K*C, D], [K*C]
  at::Tensor v_weight, v_bias;  // [K*C, D], [K*C]
  at::Tensor q_norm_C, k_norm_C;
  at::Tensor o_weight, o_bias;  // [D, H*C], [D]
  at::Tensor attention_out_norm_D;
  at::Tensor mlp_norm_D;
  at::Tensor router_weight;      // [E, D]
  std::vector<MlpWeights> mlps;  // one, or one for each expert
  at::Tensor mlp_out_norm_D;
  at::Tensor flat;          // the buffer of all of them (parameter_unit.h)
  at::Tensor experts_flat;  // UnitShare::experts: that of the MLPs
};

struct DecoderWeights {
  at::Tensor embedding_VD;
  std::vector<LayerWeights> layers;
  at::Tensor final_norm_D;
  at::Tensor head_VD;  // the embedding itself if the head is tied
  at::Tensor embedding_flat, head_flat;
};

// One tensor of a block: its name in a checkpoint after "model.layers.N.", its role and its shape.
struct BlockTensor {
  std::string name;
  // REQUIRES: the layer has spec.mlps() MLPs.
  std::function<at::Tensor&(LayerWeights& layer)> role;
  std::vector<std::int64_t> shape;
};

// Returns the tensors of a block in the order of the checkpoint. Those of experts come last, expert
// by expert.
std::vector<BlockTensor> BlockTensors(const BlockSpec& spec);

// The tensors of the experts among them.
std::size_t ExpertTensors(const BlockSpec& spec);

}  // namespace buttress
