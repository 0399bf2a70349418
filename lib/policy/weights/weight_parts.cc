#include "lib/policy/weights/weight_parts.h"

#include <torch/types.h>

#include <utility>

namespace buttress {

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
