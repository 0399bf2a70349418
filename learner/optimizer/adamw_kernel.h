// CPU kernel of an AdamW update whose results are stored as bfloat16 with stochastic rounding.
//
// The kernel does not use torch. It is compiled for several instruction sets, one of which is
// chosen at run time. It is single-threaded; callers divide the values among threads.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The numbers of one update, t, that are equal for all parameters.
struct AdamWFactors {
  float keep = 1;       // 1 - learning rate * weight decay
  float step_size = 0;  // learning rate / (1 - beta1^t)
  float beta1 = 0;
  float beta2 = 0;
  float root_scale = 1;  // 1 / sqrt(1 - beta2^t)
  float eps = 0;
};

// Selects the random bits of an update. They depend on nothing else than the key and the index of
// the value.
struct RoundingKey {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

// Updates parameters and moments [count] from gradients [count]. `index` is that of the first value
// in its tensor. Computes in float32; rounds up or down with the probability that makes the
// expected result exact.
void StochasticAdamWRange(const float* gradient, Bf16* parameter, Bf16* first, Bf16* second,
                          std::uint64_t index, std::int64_t count, const AdamWFactors& factors,
                          RoundingKey key);

}  // namespace buttress
