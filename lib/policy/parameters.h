// The names and shapes of the parameters in a Hugging Face checkpoint, and reading them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/policy/decoder_weights.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Returns uninitialized tensors of the shapes that `config` states. A tied head is the embedding
// itself. The tensors of a block are views of one buffer, in which queries, keys and values, and
// gate and up, lie side by side: Linear multiplies with them as one matrix, without a copy.
DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device);

// Returns the name and the tensor of each parameter in the order of the checkpoint. A tied head is
// not listed.
std::vector<std::pair<std::string, at::Tensor>> NamedParameters(const DecoderWeights& weights,
                                                                const ModelConfig& config);

// Reads the values of `parameters` from the safetensors of `folder`, in the same order, to the CPU
// and in the dtype of the file. kDataLoss names a missing, unknown or misshapen tensor. Ignores the
// head of a tied model, as transformers does.
Result<std::vector<at::Tensor>> ReadParameters(
    const std::string& folder, const std::vector<std::pair<std::string, at::Tensor>>& parameters,
    bool tied_head);

}  // namespace buttress
