// The vocabulary of the kernels. Kernels are plain loops, which the compiler turns into vector code
// for each instruction set. Only kernel files, which CMakeLists.txt compiles with -O3
// -fopenmp-simd, include this header.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/policy/cpu/layer_kernels.h"

// The body of a kernel is a template over the storage. It is inlined into one function for each
// storage and instruction set.
#define BUTTRESS_INLINE [[gnu::always_inline]] static inline
#if defined(__x86_64__)
#define BUTTRESS_KERNEL \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BUTTRESS_KERNEL
#endif

namespace buttress {

BUTTRESS_INLINE float Get(float x) { return x; }

BUTTRESS_INLINE float Get(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

BUTTRESS_INLINE void Put(float& to, float x) { to = x; }

// Rounds to nearest, ties to even. NaN stays NaN.
BUTTRESS_INLINE void Put(Bf16& to, float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<std::uint16_t>(x != x ? 0x7FC0u : rounded);
}

// Returns e^x within 2 ulp for x in [-87, 88], and 0 below. The polynomial is that of Cephes' expf,
// without branches, so that loops over it become vector code.
BUTTRESS_INLINE float Exp(float x) {
  constexpr float kRound = 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float n = (clamped * 1.44269504088896341f + kRound) - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * r * r + r + 1.0f;
  const float scaled = e * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : scaled + (x - x);  // x - x is NaN if x is NaN or infinite
}

// Returns tanh(x) within 3 ulp. The polynomial is that of Cephes' tanhf, without branches.
BUTTRESS_INLINE float Tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near_zero = p * z * x + x;
  const float far = 1.0f - 2.0f / (Exp(2.0f * x) + 1.0f);
  return z < 0.390625f ? near_zero : far;
}

// Sixteen float32 values, which occupy one register of AVX-512, two of AVX2 or four of SSE.
inline constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(4 * kLanes)));

BUTTRESS_INLINE void LoadLanes(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof to); }

BUTTRESS_INLINE void LoadLanes(const Bf16* from, Lanes& to) {
  using Half = std::uint16_t __attribute__((vector_size(2 * kLanes)));
  using Word = std::uint32_t __attribute__((vector_size(4 * kLanes)));
  Half half;
  std::memcpy(&half, from, sizeof half);
  const Word word = __builtin_convertvector(half, Word) << 16;
  std::memcpy(&to, &word, sizeof to);
}

BUTTRESS_INLINE void StoreLanes(const Lanes& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}

BUTTRESS_INLINE void StoreLanes(const Lanes& from, Bf16* to) {
#pragma omp simd
  for (int i = 0; i < kLanes; ++i) Put(to[i], from[i]);
}

}  // namespace buttress
