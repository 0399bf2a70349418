// Low-rank adapters: a matrix W [O, I] of a block becomes W + s B A with A [r, I] and B [O, r],
// s = alpha / r (LoRA, Hu et al., arXiv 2106.09685), or alpha / sqrt(r) (rsLoRA, Kalajdzievski,
// arXiv 2312.03732).
//
// A and B are float32 whatever the dtype of W, as those of peft are: they are small, and rounded to
// bfloat16 they would lose nearly every update of RL.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/sections/lora_config.h"
#include "lib/policy/layers/block_spec.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"

namespace buttress {

// The adapter of a matrix. A matrix without one has undefined tensors.
struct Adapter {
  at::Tensor a_rI;
  at::Tensor b_Or;
};

// The adapters of a block by role.
struct LayerAdapters {
  Adapter q, k, v, o, gate, up, down;
};

struct Adapters {
  LoraConfig config;
  std::vector<LayerAdapters> layers;
};

// One tensor of a block's adapters: its name after "base_model.model.model.layers.N.", its role and
// its shape.
struct AdapterTensor {
  std::string name;
  std::function<at::Tensor&(LayerAdapters& layer)> role;
  std::vector<std::int64_t> shape;
};

// Returns the tensors of a block: A and B of each target of `lora`, in the order of the checkpoint.
// REQUIRES: CheckTargets.
std::vector<AdapterTensor> AdapterTensors(const BlockSpec& spec, const LoraConfig& lora);

// kInvalidArgument names a target that the model does not have: the experts of a mixture have no
// adapters.
Status CheckTargets(const LoraConfig& lora, const ModelConfig& model);

// Returns adapters with undefined tensors in every role.
Adapters NoAdapters(const LoraConfig& lora, const ModelConfig& model);

// The adapters that a training starts from, on the CPU: A is uniform within +-1 / sqrt(I), as peft
// draws it (kaiming_uniform_ with a = sqrt(5)), and B is 0, so that they change nothing. `seed`
// determines A. REQUIRES: CheckTargets.
Adapters DrawnAdapters(const LoraConfig& lora, const ModelConfig& model, std::uint64_t seed);

// Returns "base_model.model.model.layers.N.", which the names of the tensors of block N begin with.
std::string AdapterPrefix(std::size_t layer);

// Returns the name in a PEFT folder and the tensor of each A and B, block by block.
std::vector<std::pair<std::string, at::Tensor>> NamedAdapters(const Adapters& adapters,
                                                              const ModelConfig& model);

// Adds scale * B A to the matrices, in float32, and rounds to their dtype. bfloat16 loses of it
// what is smaller than half the distance to the next number.
void MergeAdapters(const Adapters& adapters, const ModelConfig& model, DecoderWeights& weights);

}  // namespace buttress
