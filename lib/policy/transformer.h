// The policy network: a decoder with its parameters.
//
// Shapes: B sequences, N packed tokens (the tokens of all sequences one after another, without
// padding), D width, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/rope.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"
#include "lib/policy/weights/packed_layout.h"

namespace buttress {

// The device of a model: a CPU, or GPU `index`.
struct ModelDevice {
  bool cuda = false;
  int index = 0;
};

// Returns the device, which then is the one that allocations without a device use.
// kFailedPrecondition if no GPU is visible.
Result<at::Device> OpenDevice(ModelDevice device);

at::ScalarType ScalarTypeOf(ModelDtype dtype);

// What is updated, reduced and published as one: the embedding, a block, or the last norm with the
// head, which is not listed if it is tied.
struct ParameterUnit {
  std::string name;  // "embedding", "block 3", "head"
  // Leaf tensors that require grad, with their names in the checkpoint.
  std::vector<std::pair<std::string, at::Tensor>> parameters;
};

// Not thread-safe. LibTorch's exceptions (c10::Error) pass through.
class Transformer {
 public:
  // Loads a Hugging Face folder into parameters of `dtype`. kDataLoss names a missing, unknown or
  // misshapen tensor; kInvalidArgument a field of config.json that is not supported.
  static Result<std::unique_ptr<Transformer>> Load(const std::string& folder, ModelDtype dtype,
                                                   ModelDevice device);

  // Draws random weights from N(0, initializer_range^2), which `seed` determines. Norms multiply by
  // 1, biases are 0.
  static Result<std::unique_ptr<Transformer>> Random(const ModelConfig& config, ModelDtype dtype,
                                                     ModelDevice device, std::uint64_t seed);

  const ModelConfig& config() const { return config_; }

  // The parameters by role. The tensors stay the same for the life of the model; their values
  // change.
  const DecoderWeights& weights() const { return weights_; }

  // Returns the hidden states [N, D] after the last norm, of packed sequences whose lengths sum to
  // N. Differentiable.
  //
  // A sequence may continue an earlier one, so that completions of one prompt compute the prompt
  // once: prefixes[b] is the index of the earlier sequence, or -1. Its positions follow those of
  // the prefix, and its rows attend to all of the prefix. Continuations follow their prefix
  // directly and have no continuations of their own. An empty `prefixes` stands for -1 throughout.
  at::Tensor Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                    std::span<const std::int64_t> prefixes = {});

  // The steps of Hidden, for a caller that runs them one by one: RunEmbedding, RunBlock for each of
  // blocks(), RunNorm. Differentiable. EmbeddingGradientOf is the derivative of RunEmbedding
  // without a tensor of the size of the table.
  PackedLayout LayOutTokens(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> prefixes) const;
  at::Tensor RunEmbedding(const at::Tensor& tokens_N) const;
  EmbeddingGradient EmbeddingGradientOf(const at::Tensor& tokens_N,
                                        const at::Tensor& grad_ND) const;
  at::Tensor RunBlock(std::size_t block, const PackedLayout& layout, const at::Tensor& hidden_ND);
  at::Tensor RunNorm(const at::Tensor& hidden_ND) const;

  std::size_t blocks() const { return weights_.layers.size(); }

  // Returns the logits [N, V] of hidden states [N, D], in float32. Differentiable for float32
  // parameters.
  at::Tensor Logits(const at::Tensor& hidden_ND) const;

  // The parameters with their names in the checkpoint, in a fixed order. They are leaf tensors that
  // require grad. A tied head is not listed.
  const std::vector<std::pair<std::string, at::Tensor>>& parameters() const { return parameters_; }

  // The same parameters in the same order by unit: the embedding, the blocks, the head.
  const std::vector<ParameterUnit>& units() const { return units_; }

 private:
  Transformer(ModelConfig config, DecoderWeights weights, at::Device device);

  const ModelConfig config_;
  DecoderWeights weights_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::vector<ParameterUnit> units_;
  std::vector<RopeTable> ropes_;
  const at::Device device_;
};

// Writes a Hugging Face folder that transformers and vLLM load: the weights as model.safetensors,
// and config.json, generation_config.json and the tokenizer files of `source_folder`.
Status SaveModelFolder(const Transformer& model, const std::string& source_folder,
                       const std::string& folder);

// Returns the bytes of a parameter in the layout of safetensors. The view is valid as long as
// `storage`, which holds a contiguous tensor on the CPU.
std::string_view TensorBytes(const at::Tensor& tensor, at::Tensor& storage);

// Returns "F32" or "BF16". REQUIRES: `tensor` is float32 or bfloat16.
std::string SafetensorsDtype(const at::Tensor& tensor);

}  // namespace buttress
