#include "lib/policy/weights/parameters.h"

#include <c10/util/accumulate.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "lib/policy/exception_status.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

std::optional<at::ScalarType> FloatingType(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F16") return at::kHalf;
  return std::nullopt;
}

Status Check(const TensorView& view, at::IntArrayRef shape, const std::string& folder) {
  if (!FloatingType(view.dtype)) {
    return DataLoss(c10::str(folder, ": tensor ", view.name, " has dtype ", view.dtype,
                             "; expected F32, BF16 or F16"));
  }
  if (!shape.equals(view.shape)) {
    return DataLoss(c10::str(folder, ": tensor ", view.name, " has shape ",
                             at::IntArrayRef(view.shape), "; config.json implies ", shape));
  }
  return OkStatus();
}

}  // namespace

LayerWeights EmptyBlock(const BlockSpec& spec, const at::TensorOptions& options,
                        const UnitShare& share) {
  LayerWeights block;
  block.mlps.resize(spec.mlps());
  const std::vector<BlockTensor> all = BlockTensors(spec);
  const auto fill = [&](std::span<const BlockTensor> list) {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const BlockTensor& tensor : list) shapes.push_back(tensor.shape);
    std::vector<at::Tensor> tensors(list.size());
    const at::Tensor flat = EmptyUnit(shapes, share.ranks, options, tensors);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].role(block) = tensors[i];
    return flat;
  };
  const std::size_t experts = share.experts ? ExpertTensors(spec) : 0;
  block.flat = fill(std::span(all).first(all.size() - experts));
  if (experts > 0) block.experts_flat = fill(std::span(all).last(experts));
  return block;
}

DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device,
                            const UnitShare& share) {
  const auto options = at::TensorOptions(dtype).device(device);
  const auto keep = [&](const at::Tensor& flat) {
    if (share.weights || share.stored) ReleaseMemory(flat);
    return flat;
  };
  const std::int64_t D = config.hidden_size;
  const std::vector<std::int64_t> table = {config.vocab_size, D};
  const bool tied = config.tie_word_embeddings;
  DecoderWeights weights;
  weights.embedding_flat =
      keep(EmptyUnit({table}, share.ranks, options, {&weights.embedding_VD, 1}));
  for (const BlockSpec& spec : config.blocks) {
    const LayerWeights& block = weights.layers.emplace_back(EmptyBlock(spec, options, share));
    keep(block.flat);
    if (block.experts_flat.defined()) keep(block.experts_flat);
  }
  std::vector<at::Tensor> head(2);
  std::vector<std::vector<std::int64_t>> shapes = {{D}};
  if (!tied) shapes.push_back(table);
  weights.head_flat = keep(EmptyUnit(shapes, share.ranks, options, head));
  weights.final_norm_D = head[0];
  weights.head_VD = tied ? weights.embedding_VD : head[1];
  return weights;
}

NamedTensors NamedParameters(const DecoderWeights& weights, const ModelConfig& config) {
  NamedTensors list = {{"model.embed_tokens.weight", weights.embedding_VD}};
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    LayerWeights layer = weights.layers[i];
    for (const BlockTensor& tensor : BlockTensors(config.blocks[i]))
      list.emplace_back(prefix + tensor.name, tensor.role(layer));
  }
  list.emplace_back("model.norm.weight", weights.final_norm_D);
  if (!config.tie_word_embeddings) list.emplace_back("lm_head.weight", weights.head_VD);
  return list;
}

Result<StoredParameters> StoredParameters::Open(const std::string& folder,
                                                const NamedTensors& parameters, bool tied_head) {
  BUTTRESS_ASSIGN_OR_RETURN(auto file, SafetensorsFolder::Open(folder));
  StoredParameters stored(std::move(file));
  std::unordered_set<std::string> known;
  for (const auto& [name, tensor] : parameters) {
    known.insert(name);
    const TensorView* view = stored.file_->Find(name);
    if (view == nullptr)
      return DataLoss(c10::str(folder, ": tensor ", name, " is missing; config.json implies it"));
    BUTTRESS_RETURN_IF_ERROR(Check(*view, tensor.sizes(), folder));
    stored.views_.push_back(view);
  }
  if (tied_head) known.insert("lm_head.weight");
  for (const std::string& name : stored.file_->names()) {
    if (known.count(name) == 0)
      return DataLoss(c10::str(folder, ": tensor ", name, " does not belong to this architecture"));
  }
  return stored;
}

Status StoredParameters::CopyTo(std::size_t index, const at::Tensor& tensor) const {
  const TensorView& view = *views_[index];
  const at::ScalarType type = *FloatingType(view.dtype);
  const bool direct = tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type;
  const at::Tensor values =
      direct ? tensor.detach() : at::empty(tensor.sizes(), at::TensorOptions(type));
  BUTTRESS_RETURN_IF_ERROR(view.file->Read(view, values.mutable_data_ptr()));
  if (!direct) at::Tensor(tensor.detach()).copy_(values);
  return OkStatus();
}

Result<StoredWeights> StoredWeights::Open(const std::string& folder, const ModelConfig& config,
                                          at::ScalarType dtype, at::Device device) {
  const DecoderWeights shapes = EmptyWeights(config, dtype, at::kMeta);
  BUTTRESS_ASSIGN_OR_RETURN(
      StoredParameters values,
      StoredParameters::Open(folder, NamedParameters(shapes, config), config.tie_word_embeddings));
  return StoredWeights(std::move(values), config, at::TensorOptions(dtype).device(device));
}

StoredWeights::StoredWeights(StoredParameters values, ModelConfig config, at::TensorOptions options)
    : values_(std::move(values)), config_(std::move(config)), options_(options) {
  first_.push_back(1);  // behind the embedding
  for (const BlockSpec& spec : config_.blocks)
    first_.push_back(first_.back() + BlockTensors(spec).size());
}

at::Tensor StoredWeights::Embedding() const {
  return Read(0, {config_.vocab_size, config_.hidden_size});
}

LayerWeights StoredWeights::Block(std::size_t layer) const {
  const BlockSpec& spec = config_.blocks[layer];
  LayerWeights block = EmptyBlock(spec, options_);
  std::size_t index = first_[layer];
  for (const BlockTensor& tensor : BlockTensors(spec)) ReadInto(index++, tensor.role(block));
  return block;
}

at::Tensor StoredWeights::FinalNorm() const { return Read(first_.back(), {config_.hidden_size}); }

at::Tensor StoredWeights::Head() const {
  if (config_.tie_word_embeddings) return {};
  return Read(first_.back() + 1, {config_.vocab_size, config_.hidden_size});
}

at::Tensor StoredWeights::Read(std::size_t index, at::IntArrayRef shape) const {
  at::Tensor tensor = at::empty(shape, options_);
  ReadInto(index, tensor);
  return tensor;
}

void StoredWeights::ReadInto(std::size_t index, const at::Tensor& tensor) const {
  Status status = values_.CopyTo(index, tensor);
  if (!status.ok()) throw StatusError(std::move(status));
}

}  // namespace buttress
