// AdamW on a list of parameters, in their own dtype: float32, or pure bfloat16 (parameters and both
// moments). Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/run_config.h"

namespace buttress {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101, Algorithm 2,
// with LibTorch's fused kernels, which compute in float32 and round once when they store. Weight
// decay is for matrices only. Not thread-safe.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const OptimConfig& options);

  // One update from the parameters' gradients; every parameter must have one.
  void Step(double learning_rate);

  // Updates so far: the bias correction's t.
  std::int64_t steps() const;

  // Moments under the names of their parameters, in the parameters' order; the tensors are the
  // optimizer's own.
  const NamedTensors& first_moments() const { return first_; }

  const NamedTensors& second_moments() const { return second_; }

  // After the moments have been overwritten: goes on as if `steps` updates had been made.
  void Resume(std::int64_t steps);

 private:
  void Update(bool matrices, double learning_rate);

  const OptimConfig options_;
  const NamedTensors parameters_;
  NamedTensors first_;
  NamedTensors second_;
  at::Tensor steps_;  // float32, as the kernels want it: exact up to 2^24
};

}  // namespace buttress
