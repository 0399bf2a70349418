#include "lib/policy/weights/decoder_weights.h"

#include <utility>

namespace buttress {
namespace {

void AddMlp(const std::string& prefix, std::size_t mlp, const BlockSpec& spec,
            std::vector<BlockTensor>& list) {
  const auto role = [mlp](at::Tensor MlpWeights::*weight) {
    return [mlp, weight](LayerWeights& layer) -> at::Tensor& { return layer.mlps[mlp].*weight; };
  };
  list.push_back({prefix + "gate_proj.weight", role(&MlpWeights::gate_weight), {spec.F, spec.D}});
  list.push_back({prefix + "up_proj.weight", role(&MlpWeights::up_weight), {spec.F, spec.D}});
  list.push_back({prefix + "down_proj.weight", role(&MlpWeights::down_weight), {spec.D, spec.F}});
}

}  // namespace

std::vector<BlockTensor> BlockTensors(const BlockSpec& spec) {
  const std::int64_t q = spec.attention.q_width();
  const std::int64_t kv = spec.attention.kv_width();
  std::vector<BlockTensor> list;
  const auto add = [&list](std::string name, at::Tensor LayerWeights::*role,
                           std::vector<std::int64_t> shape) {
    list.push_back({std::move(name), role, std::move(shape)});
  };
  add("input_layernorm.weight", &LayerWeights::input_norm_D, {spec.D});
  add("self_attn.q_proj.weight", &LayerWeights::q_weight, {q, spec.D});
  if (spec.qkv_bias) add("self_attn.q_proj.bias", &LayerWeights::q_bias, {q});
  add("self_attn.k_proj.weight", &LayerWeights::k_weight, {kv, spec.D});
  if (spec.qkv_bias) add("self_attn.k_proj.bias", &LayerWeights::k_bias, {kv});
  add("self_attn.v_proj.weight", &LayerWeights::v_weight, {kv, spec.D});
  if (spec.qkv_bias) add("self_attn.v_proj.bias", &LayerWeights::v_bias, {kv});
  if (spec.qk_norm) {
    add("self_attn.q_norm.weight", &LayerWeights::q_norm_C, {spec.attention.C});
    add("self_attn.k_norm.weight", &LayerWeights::k_norm_C, {spec.attention.C});
  }
  add("self_attn.o_proj.weight", &LayerWeights::o_weight, {spec.D, q});
  if (spec.out_bias) add("self_attn.o_proj.bias", &LayerWeights::o_bias, {spec.D});
  // The name of the norm before the MLP without post-norms is that of the norm after the attention
  // with them.
  if (spec.post_norms) {
    add("post_attention_layernorm.weight", &LayerWeights::attention_out_norm_D, {spec.D});
    add("pre_feedforward_layernorm.weight", &LayerWeights::mlp_norm_D, {spec.D});
    add("post_feedforward_layernorm.weight", &LayerWeights::mlp_out_norm_D, {spec.D});
  } else {
    add("post_attention_layernorm.weight", &LayerWeights::mlp_norm_D, {spec.D});
  }
  const std::int64_t E = spec.experts.count;
  if (E == 0) AddMlp("mlp.", 0, spec, list);
  if (E > 0) add("mlp.gate.weight", &LayerWeights::router_weight, {E, spec.D});
  for (std::int64_t e = 0; e < E; ++e)
    AddMlp("mlp.experts." + std::to_string(e) + ".", static_cast<std::size_t>(e), spec, list);
  return list;
}

std::size_t ExpertTensors(const BlockSpec& spec) {
  return 3 * static_cast<std::size_t>(spec.experts.count);
}

}  // namespace buttress
