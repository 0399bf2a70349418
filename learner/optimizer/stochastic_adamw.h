// AdamW with bfloat16 parameters and moments. Torch.
//
// Rounding to nearest would lose an update that is smaller than half the distance to the next
// bfloat16, which at the learning rates of RL is nearly all of them, and a second moment would
// never decay. Stochastic rounding keeps both in expectation (Gupta et al., "Deep learning with
// limited numerical precision", arXiv 1502.02551, section 3).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learner/optimizer/adamw_kernel.h"

namespace buttress {

// The rounding key of update `step` of parameter `parameter`, so that an update gives the same bits
// after a resume and on any number of ranks. Pure.
RoundingKey RoundingKeyOf(std::uint64_t seed, std::int64_t step, std::int64_t parameter);

// One contiguous tensor each; the gradient is float32, the others are bfloat16.
struct StochasticAdamWTensors {
  at::Tensor gradient;
  at::Tensor parameter;
  at::Tensor first;   // moment
  at::Tensor second;  // moment
};

// Makes one update, on CPUs with the kernel and elsewhere with StochasticAdamWByOperators.
void StochasticAdamWStep(const StochasticAdamWTensors& tensors, const AdamWFactors& factors,
                         RoundingKey key);

// The same update by LibTorch's operators, for any device. Uses the same random bits as the kernel.
void StochasticAdamWByOperators(const StochasticAdamWTensors& tensors, const AdamWFactors& factors,
                                RoundingKey key);

}  // namespace buttress
