// Shapes: N packed tokens, D width, V vocabulary.
#include "lib/policy/transformer.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/util/accumulate.h>
#include <torch/types.h>

#include "lib/base/text/random.h"
#include "lib/policy/adapters/adapted_products.h"
#include "lib/policy/context_group.h"
#include "lib/policy/context_heads.h"
#include "lib/policy/cpu/row_attention.h"
#include "lib/policy/device_copy.h"
#include "lib/policy/layers/attention.h"
#include "lib/policy/layers/block.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/norm.h"
#include "lib/policy/weights/parameters.h"
#include "lib/policy/weights/stored_units.h"

namespace buttress {
namespace {

// The rows of packed sequences, which attend to the rows of their sequence and of its prefix.
class PackedRows final : public BlockRows {
 public:
  PackedRows(const PackedLayout& layout, bool row_wise) : layout_(layout), row_wise_(row_wise) {}

  const at::Tensor& positions_N() const override { return layout_.positions_N; }

  std::int64_t end() const override { return layout_.longest; }

  at::Tensor Attend(const AttentionSpec& spec, std::size_t /*layer*/,
                    const at::Tensor& qkv) override {
    if (layout_.context == nullptr) return AttendRows(spec, qkv);
    ContextGroup& context = *layout_.context;
    const at::Tensor of_heads = ExchangeRowsForHeads(context, spec, layout_.offsets.back(), qkv);
    return ExchangeHeadsForRows(context, AttendRows(HeadsOfRank(spec, context.size()), of_heads));
  }

 private:
  at::Tensor AttendRows(const AttentionSpec& spec, const at::Tensor& qkv) const {
    return row_wise_ ? RowAttention(layout_, qkv, spec) : CausalAttention(layout_, qkv, spec);
  }

  const PackedLayout& layout_;
  const bool row_wise_;
};

std::vector<ParameterUnit> UnitsOf(const NamedTensors& parameters, const DecoderWeights& weights,
                                   const ModelConfig& config, const UnitShare& share) {
  auto next = parameters.begin();
  const auto unit = [&](std::string name, std::size_t count, const at::Tensor& flat) {
    const auto first = next;
    next += static_cast<std::ptrdiff_t>(count);
    return DescribeUnit(std::move(name), {first, next}, flat, share);
  };
  std::vector<ParameterUnit> units = {unit("embedding", 1, weights.embedding_flat)};
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockSpec& spec = config.blocks[i];
    const std::size_t experts = share.experts ? ExpertTensors(spec) : 0;
    units.push_back(unit("block " + std::to_string(i), BlockTensors(spec).size() - experts,
                         weights.layers[i].flat));
    if (experts == 0) continue;
    units.push_back(unit("experts " + std::to_string(i), experts, weights.layers[i].experts_flat));
    units.back().stays_divided = true;
  }
  units.push_back(
      unit("head", static_cast<std::size_t>(parameters.end() - next), weights.head_flat));
  return units;
}

}  // namespace

Result<at::Device> OpenDevice(ModelDevice device) {
  if (!device.cuda) return at::Device(at::kCPU);
  // cuDNN's attention gives NaN gradients for some lengths with masks in LibTorch 2.11, and plans
  // anew for each shape, while each micro-batch has shapes of its own.
  at::globalContext().setSDPUseCuDNN(false);
  const auto kind = at::accelerator::getAccelerator();
  if (!kind)
    return FailedPrecondition("no CUDA device is visible; use device: cpu, or check nvidia-smi");
  const auto index = static_cast<at::DeviceIndex>(device.index);
  // What names no device then uses this GPU, and takes no memory of GPU 0.
  at::accelerator::setDeviceIndex(index);
  return at::Device(*kind, index);
}

at::ScalarType ScalarTypeOf(ModelDtype dtype) {
  return dtype == ModelDtype::kBfloat16 ? at::kBFloat16 : at::kFloat;
}

Transformer::Transformer(ModelConfig config, DecoderWeights weights, at::Device device,
                         const UnitShare& share)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      share_(share),
      parameters_(NamedParameters(weights_, config_)),
      units_(UnitsOf(parameters_, weights_, config_, share)),
      used_(weights_.layers),
      own_experts_(weights_.layers.size()),
      ropes_(RopeTables(config_, device)),
      device_(device) {
  for (auto& [name, tensor] : parameters_) tensor.requires_grad_(true);
  std::size_t next = 1;
  for (const LayerWeights& layer : weights_.layers) {
    unit_of_block_.push_back(next);
    next += layer.experts_flat.defined() ? 2 : 1;
  }
  unit_of_block_.push_back(next);
  if (share_.experts) FindOwnExperts();
}

void Transformer::FindOwnExperts() {
  for (std::size_t i = 0; i < blocks(); ++i) {
    if (!weights_.layers[i].experts_flat.defined()) continue;
    const ParameterUnit& unit = units_[unit_of_block(i) + 1];
    const std::vector<BlockTensor> list = BlockTensors(config_.blocks[i]);
    const std::size_t first = list.size() - unit.parameters.size();
    used_[i].mlps.assign(config_.blocks[i].mlps(), {});
    for (ParameterPiece& piece : PiecesOf(unit, unit.part, unit.part_begin)) {
      const at::IntArrayRef shape = unit.parameters[piece.index].second.sizes();
      TORCH_CHECK(piece.values.numel() == c10::multiply_integers(shape),
                  "an expert lies across the parts of two processes");
      piece.values = piece.values.view(shape).detach().requires_grad_(true);
      list[first + piece.index].role(used_[i]) = piece.values;
      own_experts_[i].push_back(std::move(piece));
    }
  }
}

void Transformer::FillParameters(const std::function<void(std::size_t, const at::Tensor&)>& fill) {
  const at::NoGradGuard no_grad;
  std::size_t index = 0;
  for (const ParameterUnit& unit : units_) {
    if (share_.weights) {
      TakeMemory(unit.flat);
      unit.flat.zero_();
    }
    for (const auto& [name, tensor] : unit.parameters) fill(index++, tensor);
    KeepPart(unit);
  }
}

// Where weights are divided, keeps of a whole unit the part of this process.
void Transformer::KeepPart(const ParameterUnit& unit) const {
  if (!share_.weights) return;
  unit.part.copy_(unit.flat.narrow(0, unit.part_begin, unit.part.numel()));
  ReleaseMemory(unit.flat);
}

Result<std::unique_ptr<Transformer>> Transformer::Load(const std::string& folder, ModelDtype dtype,
                                                       ModelDevice device, const UnitShare& share) {
  BUTTRESS_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(folder));
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  DecoderWeights weights = EmptyWeights(config, ScalarTypeOf(dtype), place, share);
  BUTTRESS_ASSIGN_OR_RETURN(
      auto stored,
      StoredParameters::Open(folder, NamedParameters(weights, config), config.tie_word_embeddings));
  std::unique_ptr<Transformer> model(
      new Transformer(std::move(config), std::move(weights), place, share));
  if (share.stored) {
    model->stored_units_ = std::make_unique<StoredUnits>(model->units_, std::move(stored));
    model->GatherBy(model->stored_units_.get());
    return model;
  }
  Status status;
  model->FillParameters([&](std::size_t index, const at::Tensor& tensor) {
    if (status.ok()) status = stored.CopyTo(index, tensor);
  });
  if (!status.ok()) return status;
  return model;
}

Result<std::unique_ptr<Transformer>> Transformer::Random(const ModelConfig& config,
                                                         ModelDtype dtype, ModelDevice device,
                                                         std::uint64_t seed,
                                                         const UnitShare& share) {
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  std::unique_ptr<Transformer> model(new Transformer(
      config, EmptyWeights(config, ScalarTypeOf(dtype), place, share), place, share));
  model->FillParameters([&](std::size_t index, const at::Tensor& tensor) {
    const std::string& name = model->parameters_[index].first;
    at::Tensor values = at::zeros(tensor.sizes(), at::kFloat);
    if (name.ends_with("norm.weight")) {
      values.fill_(config.final_norm.adds_one ? 0.0 : 1.0);
    } else if (!name.ends_with(".bias")) {
      RandomStream random({seed, index});
      float* data = values.data_ptr<float>();
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        data[i] = static_cast<float>(random.Normal() * config.initializer_range);
      }
    }
    at::Tensor(tensor).copy_(values);
  });
  return model;
}

NamedTensors Transformer::held_values() const {
  if (!share_.weights) return parameters_;
  NamedTensors parts;
  for (const ParameterUnit& unit : units_) parts.emplace_back("part of " + unit.name, unit.part);
  return parts;
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
  const HeldUnit held = Hold(0);
  return ScaleEmbeddings(config_, Embed(weights_.embedding_VD, ToDevice(tokens_N, device_)));
}

EmbeddingGradient Transformer::EmbeddingGradientOf(const at::Tensor& tokens_N,
                                                   const at::Tensor& grad_ND) const {
  return EmbedBackward(tokens_N, ScaleEmbeddings(config_, grad_ND));
}

at::Tensor Transformer::RunBlock(std::size_t block, const PackedLayout& layout,
                                 const at::Tensor& hidden_ND) {
  const HeldUnit held = Hold(unit_of_block(block));
  return RunMlp(block, RunAttention(block, layout, hidden_ND));
}

at::Tensor Transformer::RunAttention(std::size_t block, const PackedLayout& layout,
                                     const at::Tensor& hidden_ND) {
  PackedRows rows(layout, row_wise_);
  const LayerWeights& w = used_[block];
  return WithProducts(block, [&](const BlockProducts& products) {
    return AttentionForward(config_.blocks[block], block, w, products, ropes_, rows, hidden_ND);
  });
}

at::Tensor Transformer::RunMlp(std::size_t block, const at::Tensor& middle_ND) const {
  return WithProducts(block, [&](const BlockProducts& products) {
    return MlpForward(config_.blocks[block], used_[block], products, middle_ND);
  });
}

at::Tensor Transformer::WithProducts(std::size_t block, const ProductsUser& use) const {
  const ParameterProducts products(used_[block], peers_, row_wise_);
  if (!use_adapters_ && start_adapters_) {
    return use(AdaptedProducts(products, start_adapters_->layers[block],
                               start_adapters_->config.scale(), row_wise_));
  }
  if (!adapters_ || !use_adapters_) return use(products);
  const HeldUnit adapters = Hold(unit_of_adapters(block));
  return use(
      AdaptedProducts(products, adapters_->layers[block], adapters_->config.scale(), row_wise_));
}

void Transformer::Adapt(Adapters adapters, bool keep) {
  const at::NoGradGuard no_grad;
  if (keep) start_adapters_ = adapters;
  for (ParameterUnit& unit : units_) {
    unit.trainable = false;
    for (auto& [name, tensor] : unit.parameters) tensor.requires_grad_(false);
  }
  for (std::vector<ParameterPiece>& experts : own_experts_)
    for (ParameterPiece& piece : experts) piece.values.requires_grad_(false);
  parameters_.clear();
  for (std::size_t i = 0; i < blocks(); ++i) {
    const std::vector<AdapterTensor> tensors = AdapterTensors(config_.blocks[i], adapters.config);
    NamedTensors values;
    for (const AdapterTensor& tensor : tensors) {
      values.emplace_back(AdapterPrefix(i) + tensor.name,
                          tensor.role(adapters.layers[i]).to(device_));
      if (keep) tensor.role(start_adapters_->layers[i]) = values.back().second;
    }
    ParameterUnit& unit =
        units_.emplace_back(PackUnit("adapters " + std::to_string(i), values, share_));
    for (std::size_t t = 0; t < tensors.size(); ++t)
      tensors[t].role(adapters.layers[i]) = unit.parameters[t].second;
    parameters_.insert(parameters_.end(), unit.parameters.begin(), unit.parameters.end());
    KeepPart(unit);
  }
  adapters_ = std::move(adapters);
}

void Transformer::Merge(const Adapters& adapters) { MergeAdapters(adapters, config_, weights_); }

at::Tensor Transformer::RunNorm(const at::Tensor& hidden_ND) const {
  const HeldUnit held = Hold(unit_of_norm());
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
  const HeldUnit held = Hold(unit_of_head());
  return CapLogits(HeadLogits(hidden_ND, weights_.head_VD), config_.logit_cap);
}

}  // namespace buttress
