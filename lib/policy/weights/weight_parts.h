// The weights of a model, part by part, for a reader that need not hold them all at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"
#include "lib/policy/weights/parameters.h"

namespace buttress {

class WeightParts {
 public:
  virtual ~WeightParts() = default;

  virtual at::Tensor Embedding() const = 0;  // [V, D]
  virtual LayerWeights Block(std::size_t layer) const = 0;
  virtual at::Tensor FinalNorm() const = 0;  // [D]
  virtual at::Tensor Head() const = 0;       // [V, D]; undefined if it is the embedding
};

// The weights of a Hugging Face folder. Each call reads its part from the file. Thread-safe.
class StoredWeights final : public WeightParts {
 public:
  // Checks that the folder has the weights that `config` implies; kDataLoss names the tensor. The
  // parts have `dtype` and are on `device`.
  static Result<StoredWeights> Open(const std::string& folder, const ModelConfig& config,
                                    at::ScalarType dtype, at::Device device);

  at::Tensor Embedding() const override;
  LayerWeights Block(std::size_t layer) const override;
  at::Tensor FinalNorm() const override;
  at::Tensor Head() const override;

 private:
  StoredWeights(StoredParameters values, ModelConfig config, at::TensorOptions options);

  at::Tensor Read(std::size_t index, at::IntArrayRef shape) const;

  StoredParameters values_;
  ModelConfig config_;
  at::TensorOptions options_;
  std::vector<std::size_t> first_;  // by block, and behind the last one: index of its first tensor
};

}  // namespace buttress
