#include "lib/policy/parameters.h"

#include <torch/types.h>

#include <cstring>
#include <optional>
#include <unordered_set>

#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

std::optional<at::ScalarType> FloatingType(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F16") return at::kHalf;
  return std::nullopt;
}

Result<at::Tensor> CopyOf(const TensorView& view, at::IntArrayRef shape,
                          const std::string& folder) {
  const auto type = FloatingType(view.dtype);
  if (!type) {
    return DataLoss(c10::str(folder, ": tensor ", view.name, " has dtype ", view.dtype,
                             "; expected F32, BF16 or F16"));
  }
  if (!shape.equals(view.shape)) {
    return DataLoss(c10::str(folder, ": tensor ", view.name, " has shape ",
                             at::IntArrayRef(view.shape), "; config.json implies ", shape));
  }
  at::Tensor tensor = at::empty(shape, at::TensorOptions(*type));
  // memcpy, because the tensors of a file may be unaligned.
  std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
  return tensor;
}

}  // namespace

DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device) {
  const auto make = [options = at::TensorOptions(dtype).device(device)](at::IntArrayRef shape) {
    return at::empty(shape, options);
  };
  const std::int64_t D = config.hidden_size;
  const std::int64_t F = config.intermediate_size;
  const std::int64_t q_rows = config.heads * config.head_dim;
  const std::int64_t kv_rows = config.kv_heads * config.head_dim;
  DecoderWeights weights;
  weights.embedding_VD = make({config.vocab_size, D});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    layer.input_norm_D = make({D});
    layer.q_weight = make({q_rows, D});
    layer.q_bias = make({q_rows});
    layer.k_weight = make({kv_rows, D});
    layer.k_bias = make({kv_rows});
    layer.v_weight = make({kv_rows, D});
    layer.v_bias = make({kv_rows});
    layer.o_weight = make({D, q_rows});
    layer.mlp_norm_D = make({D});
    layer.gate_weight = make({F, D});
    layer.up_weight = make({F, D});
    layer.down_weight = make({D, F});
    weights.layers.push_back(std::move(layer));
  }
  weights.final_norm_D = make({D});
  weights.head_VD =
      config.tie_word_embeddings ? weights.embedding_VD : make({config.vocab_size, D});
  return weights;
}

std::vector<std::pair<std::string, at::Tensor>> NamedParameters(const DecoderWeights& weights,
                                                                const ModelConfig& config) {
  std::vector<std::pair<std::string, at::Tensor>> list = {
      {"model.embed_tokens.weight", weights.embedding_VD}};
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    list.emplace_back(prefix + "input_layernorm.weight", layer.input_norm_D);
    list.emplace_back(prefix + "self_attn.q_proj.weight", layer.q_weight);
    list.emplace_back(prefix + "self_attn.q_proj.bias", layer.q_bias);
    list.emplace_back(prefix + "self_attn.k_proj.weight", layer.k_weight);
    list.emplace_back(prefix + "self_attn.k_proj.bias", layer.k_bias);
    list.emplace_back(prefix + "self_attn.v_proj.weight", layer.v_weight);
    list.emplace_back(prefix + "self_attn.v_proj.bias", layer.v_bias);
    list.emplace_back(prefix + "self_attn.o_proj.weight", layer.o_weight);
    list.emplace_back(prefix + "post_attention_layernorm.weight", layer.mlp_norm_D);
    list.emplace_back(prefix + "mlp.gate_proj.weight", layer.gate_weight);
    list.emplace_back(prefix + "mlp.up_proj.weight", layer.up_weight);
    list.emplace_back(prefix + "mlp.down_proj.weight", layer.down_weight);
  }
  list.emplace_back("model.norm.weight", weights.final_norm_D);
  if (!config.tie_word_embeddings) list.emplace_back("lm_head.weight", weights.head_VD);
  return list;
}

Result<std::vector<at::Tensor>> ReadParameters(
    const std::string& folder, const std::vector<std::pair<std::string, at::Tensor>>& parameters,
    bool tied_head) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto file, SafetensorsFolder::Open(folder));
  std::unordered_set<std::string> known;
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : parameters) {
    known.insert(name);
    const TensorView* view = file->Find(name);
    if (view == nullptr)
      return DataLoss(c10::str(folder, ": tensor ", name, " is missing; config.json implies it"));
    BUTTRESS_ASSIGN_OR_RETURN(at::Tensor value, CopyOf(*view, tensor.sizes(), folder));
    values.push_back(std::move(value));
  }
  if (tied_head) known.insert("lm_head.weight");
  for (const std::string& name : file->names()) {
    if (known.count(name) == 0)
      return DataLoss(c10::str(folder, ": tensor ", name, " does not belong to this architecture"));
  }
  return values;
}

}  // namespace buttress
