#include "lib/policy/weights/parameters.h"

#include <c10/util/accumulate.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

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

// Matrices that one product reads as a whole, and their biases, are side by side as soon as
// matrices, biases and norms are apart.
LayerWeights EmptyBlock(const BlockSpec& spec, const at::TensorOptions& options) {
  std::vector<BlockTensor> tensors = BlockTensors(spec);
  const auto place = [](const BlockTensor& tensor) {
    return tensor.shape.size() == 2 ? 0 : tensor.name.ends_with(".bias") ? 1 : 2;
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const BlockTensor& a, const BlockTensor& b) { return place(a) < place(b); });
  std::int64_t total = 0;
  for (const BlockTensor& tensor : tensors) total += c10::multiply_integers(tensor.shape);
  const at::Tensor buffer = at::empty({total}, options);
  LayerWeights block;
  block.mlps.resize(spec.mlps());
  std::int64_t begin = 0;
  for (const BlockTensor& tensor : tensors) {
    const std::int64_t elements = c10::multiply_integers(tensor.shape);
    tensor.role(block) = buffer.narrow(0, begin, elements).view(tensor.shape).detach();
    begin += elements;
  }
  return block;
}

DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device) {
  const auto options = at::TensorOptions(dtype).device(device);
  const auto make = [&](at::IntArrayRef shape) { return at::empty(shape, options); };
  const std::int64_t D = config.hidden_size;
  DecoderWeights weights;
  weights.embedding_VD = make({config.vocab_size, D});
  for (const BlockSpec& spec : config.blocks) weights.layers.push_back(EmptyBlock(spec, options));
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
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    LayerWeights layer = weights.layers[i];
    for (const BlockTensor& tensor : BlockTensors(config.blocks[i]))
      list.emplace_back(prefix + tensor.name, tensor.role(layer));
  }
  list.emplace_back("model.norm.weight", weights.final_norm_D);
  if (!config.tie_word_embeddings) list.emplace_back("lm_head.weight", weights.head_VD);
  return list;
}

Result<StoredParameters> StoredParameters::Open(const std::string& folder, const Names& parameters,
                                                bool tied_head) {
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

void StoredParameters::CopyTo(std::size_t index, const at::Tensor& tensor) const {
  const TensorView& view = *views_[index];
  const at::ScalarType type = *FloatingType(view.dtype);
  const bool direct = tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type;
  const at::Tensor values =
      direct ? tensor.detach() : at::empty(tensor.sizes(), at::TensorOptions(type));
  // memcpy, because the tensors of a file may be unaligned.
  std::memcpy(values.mutable_data_ptr(), view.data.data(), view.data.size());
  ForgetPages(view.data);
  if (!direct) at::Tensor(tensor.detach()).copy_(values);
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
  for (const BlockTensor& tensor : BlockTensors(spec)) values_.CopyTo(index++, tensor.role(block));
  return block;
}

at::Tensor StoredWeights::FinalNorm() const { return Read(first_.back(), {config_.hidden_size}); }

at::Tensor StoredWeights::Head() const {
  if (config_.tie_word_embeddings) return {};
  return Read(first_.back() + 1, {config_.vocab_size, config_.hidden_size});
}

at::Tensor StoredWeights::Read(std::size_t index, at::IntArrayRef shape) const {
  at::Tensor tensor = at::empty(shape, options_);
  values_.CopyTo(index, tensor);
  return tensor;
}

}  // namespace buttress
