// The parameters' names and shapes in a Hugging Face checkpoint, and reading them from one.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/policy/decoder_weights.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Tensors of the config's shapes, their values unset. A tied head is the embedding itself.
DecoderWeights EmptyWeights(const ModelConfig& config, at::ScalarType dtype, at::Device device);

// Name and tensor of each parameter in the checkpoint's order; a tied head is not listed.
std::vector<std::pair<std::string, at::Tensor>> NamedParameters(const DecoderWeights& weights,
                                                                const ModelConfig& config);

// The values of `parameters` in the safetensors of `folder`, in the same order, on the CPU and in
// the file's dtype. Missing, extra or misshapen tensors are kDataLoss by name; a head in the file
// of a tied model is left unread, as transformers does.
Result<std::vector<at::Tensor>> ReadParameters(
    const std::string& folder, const std::vector<std::pair<std::string, at::Tensor>>& parameters,
    bool tied_head);

}  // namespace buttress
