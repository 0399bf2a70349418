// Shapes: N packed tokens, D width, V vocabulary.
#include "lib/policy/transformer.h"

#include <ATen/DeviceAccelerator.h>
#include <torch/types.h>

#include "lib/base/text/random.h"
#include "lib/policy/layers/attention.h"
#include "lib/policy/layers/block.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/norm.h"
#include "lib/policy/weights/parameters.h"

namespace buttress {
namespace {

// The rows of packed sequences, which attend to the rows of their sequence and of its prefix.
class PackedRows final : public BlockRows {
 public:
  explicit PackedRows(const PackedLayout& layout) : layout_(layout) {}

  const at::Tensor& positions_N() const override { return layout_.positions_N; }

  std::int64_t end() const override { return layout_.longest; }

  at::Tensor Attend(const AttentionSpec& spec, std::size_t /*layer*/,
                    const at::Tensor& qkv) override {
    return CausalAttention(layout_, qkv, spec);
  }

 private:
  const PackedLayout& layout_;
};

std::vector<ParameterUnit> UnitsOf(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, const ModelConfig& config) {
  auto next = parameters.begin();
  const auto unit = [&](std::string name, std::size_t count) {
    const auto first = next;
    next += static_cast<std::ptrdiff_t>(count);
    return ParameterUnit{std::move(name), {first, next}};
  };
  std::vector<ParameterUnit> units = {unit("embedding", 1)};
  for (std::size_t i = 0; i < config.blocks.size(); ++i)
    units.push_back(unit("block " + std::to_string(i), BlockTensors(config.blocks[i]).size()));
  units.push_back(unit("head", static_cast<std::size_t>(parameters.end() - next)));
  return units;
}

}  // namespace

Result<at::Device> OpenDevice(ModelDevice device) {
  if (!device.cuda) return at::Device(at::kCPU);
  if (!at::hasCUDA())
    return FailedPrecondition("no CUDA device is visible; use device: cpu, or check nvidia-smi");
  const auto index = static_cast<at::DeviceIndex>(device.index);
  // What names no device then uses this GPU, and takes no memory of GPU 0.
  at::accelerator::setDeviceIndex(index);
  return at::Device(at::kCUDA, index);
}

at::ScalarType ScalarTypeOf(ModelDtype dtype) {
  return dtype == ModelDtype::kBfloat16 ? at::kBFloat16 : at::kFloat;
}

Transformer::Transformer(ModelConfig config, DecoderWeights weights, at::Device device)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      parameters_(NamedParameters(weights_, config_)),
      units_(UnitsOf(parameters_, config_)),
      ropes_(RopeTables(config_, device)),
      device_(device) {
  for (auto& [name, tensor] : parameters_) tensor.requires_grad_(true);
}

Result<std::unique_ptr<Transformer>> Transformer::Load(const std::string& folder, ModelDtype dtype,
                                                       ModelDevice device) {
  BUTTRESS_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(folder));
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  DecoderWeights weights = EmptyWeights(config, ScalarTypeOf(dtype), place);
  const auto names = NamedParameters(weights, config);
  BUTTRESS_ASSIGN_OR_RETURN(const auto stored,
                            StoredParameters::Open(folder, names, config.tie_word_embeddings));
  for (std::size_t i = 0; i < names.size(); ++i) stored.CopyTo(i, names[i].second);
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(config), std::move(weights), place));
}

Result<std::unique_ptr<Transformer>> Transformer::Random(const ModelConfig& config,
                                                         ModelDtype dtype, ModelDevice device,
                                                         std::uint64_t seed) {
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  DecoderWeights weights = EmptyWeights(config, ScalarTypeOf(dtype), place);
  std::uint64_t stream = 0;
  for (const auto& [name, tensor] : NamedParameters(weights, config)) {
    at::Tensor values = at::zeros(tensor.sizes(), at::kFloat);
    if (name.ends_with("norm.weight")) {
      values.fill_(config.final_norm.adds_one ? 0.0 : 1.0);
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

PackedLayout Transformer::LayOutTokens(const at::Tensor& tokens_N,
                                       std::span<const std::int64_t> lengths,
                                       std::span<const std::int64_t> prefixes) const {
  PackedLayout layout = LayOut(lengths, prefixes, device_);
  TORCH_CHECK(tokens_N.dim() == 1 && tokens_N.size(0) == layout.offsets.back(),
              "Hidden: ", tokens_N.sizes(), " tokens, but the lengths sum to ",
              layout.offsets.back());
  PrepareAttention(layout, config_.blocks, weights_.embedding_VD);
  return layout;
}

at::Tensor Transformer::RunEmbedding(const at::Tensor& tokens_N) const {
  return ScaleEmbeddings(config_, Embed(weights_.embedding_VD, tokens_N.to(device_)));
}

EmbeddingGradient Transformer::EmbeddingGradientOf(const at::Tensor& tokens_N,
                                                   const at::Tensor& grad_ND) const {
  return EmbedBackward(tokens_N.to(device_), ScaleEmbeddings(config_, grad_ND));
}

at::Tensor Transformer::RunBlock(std::size_t block, const PackedLayout& layout,
                                 const at::Tensor& hidden_ND) {
  PackedRows rows(layout);
  const LayerWeights& w = weights_.layers[block];
  return BlockForward(config_.blocks[block], block, w, ParameterProducts(w), ropes_, rows,
                      hidden_ND);
}

at::Tensor Transformer::RunNorm(const at::Tensor& hidden_ND) const {
  return RmsNorm(hidden_ND, weights_.final_norm_D, config_.final_norm);
}

at::Tensor Transformer::Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                               std::span<const std::int64_t> prefixes) {
  const PackedLayout layout = LayOutTokens(tokens_N, lengths, prefixes);
  at::Tensor hidden_ND = RunEmbedding(tokens_N);
  for (std::size_t i = 0; i < blocks(); ++i) hidden_ND = RunBlock(i, layout, hidden_ND);
  return RunNorm(hidden_ND);
}

at::Tensor Transformer::Logits(const at::Tensor& hidden_ND) const {
  return CapLogits(HeadLogits(hidden_ND, weights_.head_VD), config_.logit_cap);
}

}  // namespace buttress
