// An AdamW update whose results are stored as bfloat16 with stochastic rounding: the arithmetic of
// one value, for the kernel of CPUs (learner/optimizer/adamw_kernel.cc) and that of GPUs. Each
// operation is rounded as IEEE 754 says and products are added with explicit fused operations, so
// that both give the same bits. Compile it without contraction (-ffp-contract=off, --fmad=false).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define BUTTRESS_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define BUTTRESS_HOST_DEVICE [[gnu::always_inline]] inline
#endif

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

// Values of one parameter, [count] each.
struct AdamWRange {
  const float* gradient = nullptr;
  std::uint16_t* parameter = nullptr;  // bfloat16
  std::uint16_t* first = nullptr;      // moment, bfloat16
  std::uint16_t* second = nullptr;     // moment, bfloat16
  std::int64_t count = 0;
  std::uint64_t index = 0;  // of the first value in its parameter
  AdamWFactors factors = {};
  RoundingKey key = {};
};

BUTTRESS_HOST_DEVICE float WidenBf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

// Adds 16 random bits to the 16 that bfloat16 cuts off: rounds up or down with the probability that
// makes the expected result exact. A number that bfloat16 represents stays.
BUTTRESS_HOST_DEVICE std::uint16_t RoundToBf16(float x, std::uint32_t random) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>((bits + (random & 0xFFFFu)) >> 16);
}

// The finaliser of MurmurHash3, in which every bit of the input changes half of the output bits.
BUTTRESS_HOST_DEVICE std::uint32_t MixBits(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

// Updates value i of the range, in float32.
BUTTRESS_HOST_DEVICE void UpdateStochastically(const AdamWRange& range, std::int64_t i) {
  const AdamWFactors& f = range.factors;
  const auto index = static_cast<std::uint32_t>(range.index) + static_cast<std::uint32_t>(i);
  const std::uint32_t random = MixBits(index ^ range.key.first);
  const std::uint32_t more = MixBits(random ^ range.key.second);
  const float g = range.gradient[i];
  const float m = fmaf(f.beta1, WidenBf16(range.first[i]), (1 - f.beta1) * g);
  const float v = fmaf(f.beta2, WidenBf16(range.second[i]), (1 - f.beta2) * g * g);
  const float change = f.step_size * m / fmaf(sqrtf(v), f.root_scale, f.eps);
  const float p = fmaf(f.keep, WidenBf16(range.parameter[i]), -change);
  range.parameter[i] = RoundToBf16(p, random);
  range.first[i] = RoundToBf16(m, random >> 16);
  range.second[i] = RoundToBf16(v, more);
}

// Enqueues the update of a range in the memory of the current device on a stream of it. Returns
// what failed, or null. Part of libbuttress_cuda.so only.
const char* LaunchStochasticAdamW(const AdamWRange& range, void* stream);

}  // namespace buttress
