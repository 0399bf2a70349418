// The tensors of a decoder by role. NamedParameters in parameters.h has their names in a
// checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace buttress {

// D width, H query heads, K key-value heads, C values of a head, F width of the MLP.
struct LayerWeights {
  at::Tensor input_norm_D;
  at::Tensor q_weight, q_bias;  // [H*C, D], [H*C]
  at::Tensor k_weight, k_bias;  // [K*C, D], [K*C]
  at::Tensor v_weight, v_bias;  // [K*C, D], [K*C]
  at::Tensor o_weight;          // [D, H*C]
  at::Tensor mlp_norm_D;
  at::Tensor gate_weight, up_weight;  // [F, D]
  at::Tensor down_weight;             // [D, F]
};

struct DecoderWeights {
  at::Tensor embedding_VD;
  std::vector<LayerWeights> layers;
  at::Tensor final_norm_D;
  at::Tensor head_VD;  // the embedding itself if the head is tied
};

}  // namespace buttress
