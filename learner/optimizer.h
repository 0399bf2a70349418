// AdamW and its learning rate. Parameters and both moments have one dtype, float32 or bfloat16.
// Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/run_config.h"

namespace buttress {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101, Algorithm 2.
// The fused kernels of LibTorch compute in float32 and round once when they store. Weight decay
// applies to matrices only. Not thread-safe.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const OptimConfig& options);

  // Makes one update. REQUIRES: every parameter has a gradient.
  void Step(double learning_rate);

  // The number of updates so far, t of the bias correction.
  std::int64_t steps() const;

  // The moments, with the names and in the order of their parameters. The tensors are those of the
  // optimizer, not copies.
  const NamedTensors& first_moments() const { return first_; }

  const NamedTensors& second_moments() const { return second_; }

  // Continues as after `steps` updates. The caller overwrites the moments.
  void Resume(std::int64_t steps);

 private:
  void Update(bool matrices, double learning_rate);

  const OptimConfig options_;
  const NamedTensors parameters_;
  NamedTensors first_;
  NamedTensors second_;
  at::Tensor steps_;  // float32, as the kernels require; exact up to 2^24
};

// Returns the learning rate of step 1 ... total_steps. It is lr * step / warmup_steps while warming
// up. Afterwards it is constant, or falls from lr to lr * min_lr_ratio at total_steps along a
// straight line or half a cosine. Pure.
double LearningRate(const OptimConfig& options, std::int64_t step, std::int64_t total_steps);

}  // namespace buttress
