// The policy network and nothing about RL.
//
// Shapes: B sequences, T tokens, N packed tokens (all sequences one after another, no padding), D
// width, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/policy/decoder_weights.h"
#include "lib/policy/model_config.h"

namespace buttress {

struct ModelDevice {
  bool cuda = false;
  int index = 0;
};

// A decoder with its parameters. Not thread-safe. Throws what LibTorch throws (c10::Error); callers
// catch in the four named places.
class Transformer {
 public:
  // From a Hugging Face folder, in `dtype` ("float32", "bfloat16"). Missing, extra or misshapen
  // tensors are kDataLoss by name.
  static Result<std::unique_ptr<Transformer>> Load(const std::string& folder,
                                                   const std::string& dtype, ModelDevice device);

  // Random weights from a config.json (normal, initializer_range), reproducible from `seed`.
  static Result<std::unique_ptr<Transformer>> Random(const ModelConfig& config,
                                                     const std::string& dtype, ModelDevice device,
                                                     std::uint64_t seed);

  virtual ~Transformer() = default;
  virtual const ModelConfig& config() const = 0;

  // The parameters by role; the tensors stay the same ones for the model's life, their values
  // change.
  virtual const DecoderWeights& weights() const = 0;

  // Hidden states after the last norm, [N, D], of sequences packed one after another; lengths sum
  // to N. Differentiable.
  //
  // A sequence may continue an earlier one: prefixes[b] names it, -1 for none (`prefixes` may be
  // empty). Its rows then stand after the prefix's positions and attend to all of it, so that
  // completions of one prompt compute the prompt once. Continuations follow their prefix directly
  // and have none themselves.
  virtual at::Tensor Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> prefixes) = 0;

  at::Tensor Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths) {
    return Hidden(tokens_N, lengths, {});
  }

  // Logits [N, V] of hidden states [N, D], in the parameters' dtype. Differentiable.
  virtual at::Tensor Logits(const at::Tensor& hidden_ND) = 0;

  // Name (as in the checkpoint) and parameter, in a fixed order; a tied head is not listed. Leaf
  // tensors that require grad.
  virtual const std::vector<std::pair<std::string, at::Tensor>>& parameters() const = 0;

  // The values of parameters() in a folder, in that order, each checked against this model's shape
  // (kDataLoss by name). Thread-safe, so that they can be read while the model runs.
  virtual Result<std::vector<at::Tensor>> ReadWeights(const std::string& folder) const = 0;

  // Overwrites the parameters with what ReadWeights gave.
  virtual void TakeWeights(const std::vector<at::Tensor>& values) = 0;

  // Both at once; all or nothing.
  Status LoadWeights(const std::string& folder) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<at::Tensor> values, ReadWeights(folder));
    TakeWeights(values);
    return OkStatus();
  }
};

// Writes a Hugging Face folder that transformers and vLLM load: model.safetensors, and config.json,
// generation_config.json and tokenizer files copied from `source_folder`.
Status SaveModelFolder(const Transformer& model, const std::string& source_folder,
                       const std::string& folder);

// Bytes of a parameter as safetensors wants them (contiguous, CPU); the view lives as long as
// `storage`.
std::string_view TensorBytes(const at::Tensor& tensor, at::Tensor& storage);

// "F32", "BF16".
std::string SafetensorsDtype(const at::Tensor& tensor);

}  // namespace buttress
