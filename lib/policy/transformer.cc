// Shapes: N packed tokens, D width, H query heads, K key-value heads, C values of a head, F width
// of the MLP, V vocabulary.
#include "lib/policy/transformer.h"

#include <torch/types.h>

#include "lib/base/random.h"
#include "lib/policy/cpu/short_attention.h"
#include "lib/policy/linear.h"
#include "lib/policy/norm.h"
#include "lib/policy/parameters.h"
#include "lib/policy/swiglu.h"

namespace buttress {
namespace {

at::ScalarType ScalarTypeOf(ModelDtype dtype) {
  return dtype == ModelDtype::kBfloat16 ? at::kBFloat16 : at::kFloat;
}

Result<at::Device> FindDevice(ModelDevice device) {
  if (!device.cuda) return at::Device(at::kCPU);
  if (!at::hasCUDA())
    return FailedPrecondition("no CUDA device is visible; use device: cpu, or check nvidia-smi");
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
}

}  // namespace

Transformer::Transformer(ModelConfig config, DecoderWeights weights, at::Device device)
    : config_(std::move(config)),
      heads_{config_.heads, config_.kv_heads, config_.head_dim},
      weights_(std::move(weights)),
      parameters_(NamedParameters(weights_, config_)),
      rope_(config_.head_dim, config_.rope_theta, device),
      device_(device) {
  for (auto& [name, tensor] : parameters_) tensor.requires_grad_(true);
}

Result<std::unique_ptr<Transformer>> Transformer::Load(const std::string& folder, ModelDtype dtype,
                                                       ModelDevice device) {
  BUTTRESS_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(folder));
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, FindDevice(device));
  DecoderWeights weights = EmptyWeights(config, ScalarTypeOf(dtype), place);
  const auto names = NamedParameters(weights, config);
  BUTTRESS_ASSIGN_OR_RETURN(const auto loaded,
                            ReadParameters(folder, names, config.tie_word_embeddings));
  for (std::size_t i = 0; i < loaded.size(); ++i) at::Tensor(names[i].second).copy_(loaded[i]);
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(config), std::move(weights), place));
}

Result<std::unique_ptr<Transformer>> Transformer::Random(const ModelConfig& config,
                                                         ModelDtype dtype, ModelDevice device,
                                                         std::uint64_t seed) {
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, FindDevice(device));
  DecoderWeights weights = EmptyWeights(config, ScalarTypeOf(dtype), place);
  std::uint64_t stream = 0;
  for (const auto& [name, tensor] : NamedParameters(weights, config)) {
    at::Tensor values = at::zeros(tensor.sizes(), at::kFloat);
    if (name.ends_with("norm.weight")) {
      values.fill_(1.0);
    } else if (!name.ends_with(".bias")) {
      RandomStream random({seed, stream});
      float* data = values.data_ptr<float>();
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        data[i] = static_cast<float>(random.Normal() * config.initializer_range);
      }
    }
    at::Tensor(tensor).copy_(values);
    ++stream;
  }
  return std::unique_ptr<Transformer>(new Transformer(config, std::move(weights), place));
}

at::Tensor Transformer::Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                               std::span<const std::int64_t> prefixes) {
  PackedLayout layout = LayOut(lengths, prefixes, device_);
  TORCH_CHECK(tokens_N.dim() == 1 && tokens_N.size(0) == layout.offsets.back(),
              "Hidden: ", tokens_N.sizes(), " tokens, but the lengths sum to ",
              layout.offsets.back());
  at::Tensor hidden_ND = at::embedding(weights_.embedding_VD, tokens_N.to(device_));
  if (!UsesShortAttention(layout, hidden_ND, heads_)) layout.rectangles = LayOutRectangles(layout);
  for (const LayerWeights& layer : weights_.layers) hidden_ND = Layer(layer, layout, hidden_ND);
  return RmsNorm(hidden_ND, weights_.final_norm_D, config_.rms_norm_eps);
}

at::Tensor Transformer::Layer(const LayerWeights& w, const PackedLayout& layout,
                              const at::Tensor& hidden_ND) {
  const at::Tensor x = RmsNorm(hidden_ND, w.input_norm_D, config_.rms_norm_eps);
  const at::Tensor qkv =
      rope_.Rotate(Linear(x, {w.q_weight, w.k_weight, w.v_weight}, {w.q_bias, w.k_bias, w.v_bias}),
                   heads_.H + heads_.K, layout.positions_N, layout.longest);
  const at::Tensor middle_ND =
      hidden_ND + Linear(CausalAttention(layout, qkv, heads_), {w.o_weight});
  const at::Tensor y = RmsNorm(middle_ND, w.mlp_norm_D, config_.rms_norm_eps);
  return middle_ND + Linear(SwiGlu(Linear(y, {w.gate_weight, w.up_weight})), {w.down_weight});
}

at::Tensor Transformer::Logits(const at::Tensor& hidden_ND) const {
  return at::linear(hidden_ND, weights_.head_VD);
}

Result<std::vector<at::Tensor>> Transformer::ReadWeights(const std::string& folder) const {
  return ReadParameters(folder, parameters_, config_.tie_word_embeddings);
}

void Transformer::SetWeights(const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) parameters_[i].second.copy_(values[i]);
}

}  // namespace buttress
