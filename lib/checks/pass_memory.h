// The memory of the forward and backward pass of a micro-batch, planned. Without LibTorch.
//
// The sums follow what the backward pass of each layer keeps (lib/policy/layers/).
#pragma once

#include <cstdint>
#include <vector>

#include "lib/config/run_config.h"
#include "lib/policy/model_config.h"
#include "lib/rl/micro_batch_shape.h"

namespace buttress {

// The parameters of a model by unit: the embedding, the blocks with a share `experts` of their
// experts, the head with the last norm.
std::vector<double> UnitSizes(const ModelConfig& model, double experts = 1);

// Those that are trained: the units of the model, or the adapters of each block.
std::vector<double> TrainedSizes(const LoraConfig& lora, const ModelConfig& model);

struct PassBytes {
  double activations = 0;  // kept for the backward pass
  // The most that blocks and head take while they are computed, beyond the activations. Of several
  // ranks, with the whole gradients of units whose sums over the ranks are not complete, from the
  // third pass of an update on.
  double block = 0;
  double head = 0;
};

// The most that a pass over `shape` takes on a rank, without gradients of parameters.
double PassBytesOf(const RunSettings& run, const LearnerConfig& learner, const ModelConfig& model,
                   const MicroBatchShape& shape);

// Plans a pass over `shape` on each of `ranks`.
PassBytes PlanPass(const RunSettings& run, const LearnerConfig& learner, const ModelConfig& model,
                   const MicroBatchShape& shape, std::int64_t ranks);

}  // namespace buttress
