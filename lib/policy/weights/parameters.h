// The names and shapes of the parameters in a Hugging Face checkpoint, and reading them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"
#include "lib/policy/weights/parameter_unit.h"
#include "lib/weights/safetensors.h"

namespace buttress {

// Returns uninitialized tensors of the shapes that `config` states. A tied head is the embedding
// itself. The tensors of a unit are views of one buffer, in which the queries, keys and values of a
// block, and gate and up, lie side by side: Linear multiplies with them as one matrix, without a
// copy. Where the process does not hold whole units (`share`), the buffers have no memory yet.
DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device,
                            const UnitShare& share = {});

// The same for one block, with memory.
LayerWeights EmptyBlock(const BlockSpec& spec, const at::TensorOptions& options,
                        const UnitShare& share = {});

// Returns the name and the tensor of each parameter in the order of the checkpoint. A tied head is
// not listed.
NamedTensors NamedParameters(const DecoderWeights& weights, const ModelConfig& config);

// The values of parameters in the safetensors of a folder. Thread-safe.
class StoredParameters {
 public:
  // Checks that `folder` has exactly `parameters`, in their shapes and in a dtype that can be
  // converted. Ignores the head of a tied model, as transformers does. kDataLoss names a missing,
  // unknown or misshapen tensor.
  static Result<StoredParameters> Open(const std::string& folder, const NamedTensors& parameters,
                                       bool tied_head);

  // Overwrites `tensor`, which has the shape of parameter `index`, with its value, converted to the
  // dtype and the device of `tensor`. The errors of SafetensorsFile::Read.
  Status CopyTo(std::size_t index, const at::Tensor& tensor) const;

 private:
  explicit StoredParameters(std::shared_ptr<const SafetensorsFolder> file)
      : file_(std::move(file)) {}

  std::shared_ptr<const SafetensorsFolder> file_;
  std::vector<const TensorView*> views_;  // by parameter
};

// The weights of a model, part by part, for a reader that need not hold them all at once.
class WeightParts {
 public:
  virtual ~WeightParts() = default;

  virtual at::Tensor Embedding() const = 0;  // [V, D]
  virtual LayerWeights Block(std::size_t layer) const = 0;
  virtual at::Tensor FinalNorm() const = 0;  // [D]
  virtual at::Tensor Head() const = 0;       // [V, D]; undefined if it is the embedding
};

// The weights of a Hugging Face folder. Each call reads its part from the file, and throws
// StatusError if it cannot. Thread-safe.
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
  void ReadInto(std::size_t index, const at::Tensor& tensor) const;

  StoredParameters values_;
  ModelConfig config_;
  at::TensorOptions options_;
  std::vector<std::size_t> first_;  // by block, and behind the last one: index of its first tensor
};

}  // namespace buttress
