#include "learner/optimizer/adamw_kernel.h"

#include <bit>
#include <cmath>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

// The finaliser of MurmurHash3, in which every bit of the input changes half of the output bits.
BUTTRESS_INLINE std::uint32_t Mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

// Adds 16 random bits to the 16 that bfloat16 cuts off. A number that bfloat16 represents stays.
BUTTRESS_INLINE void PutRounded(Bf16& to, float x, std::uint32_t random) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) + (random & 0xFFFFu);
  to.bits = static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace

BUTTRESS_KERNEL void StochasticAdamWRange(const float* gradient, Bf16* parameter, Bf16* first,
                                          Bf16* second, std::uint64_t index, std::int64_t count,
                                          const AdamWFactors& factors, RoundingKey key) {
  const AdamWFactors f = factors;
  const auto start = static_cast<std::uint32_t>(index);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t random = Mix((start + static_cast<std::uint32_t>(i)) ^ key.first);
    const std::uint32_t more = Mix(random ^ key.second);
    const float g = gradient[i];
    const float m = f.beta1 * Get(first[i]) + (1 - f.beta1) * g;
    const float v = f.beta2 * Get(second[i]) + (1 - f.beta2) * g * g;
    const float p =
        f.keep * Get(parameter[i]) - f.step_size * m / (std::sqrt(v) * f.root_scale + f.eps);
    PutRounded(parameter[i], p, random);
    PutRounded(first[i], m, random >> 16);
    PutRounded(second[i], v, more);
  }
}

}  // namespace buttress
