// Causal attention within one short sequence on CPUs, forward and backward, straight from packed
// rows. Torch-free; see layer_kernels.h.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The largest C, and the longest sequence with its prefix, of these kernels.
inline constexpr std::int64_t kShortHead = 128;
inline constexpr std::int64_t kShortLength = 64;

// T rows of one sequence, `stride` values apart: H query heads, then K key heads, then K value
// heads, of C values each. Rows of out are H * C values apart. Each row attends to all rows of the
// prefix, and to its own sequence's up to itself.
template <class T>
struct ShortRows {
  const T* qkv;
  std::int64_t length;
  const T* prefix;  // qkv of the sequence that this one continues
  std::int64_t prefix_length;
  std::int64_t stride;
  std::int64_t H;
  std::int64_t K;
  std::int64_t C;
};

// out [T, H, C]; `logsum` [T, H] keeps the logarithm of each softmax's denominator for the backward
// pass (may be null).
void AttendShort(const ShortRows<float>& rows, float* out, float* logsum);
void AttendShort(const ShortRows<Bf16>& rows, Bf16* out, float* logsum);

// Where gradients of keys and values meet between a prefix and its continuations: [prefix_length,
// 2K, C], float32.
struct ShortPrefixGrad {
  float* of_prefix;     // added to by a continuation; null where there is no prefix
  const float* so_far;  // what continuations of these rows have added; null where there are none
};

// Gradient of it with respect to the sequence's own qkv, in rows `stride` apart; all of it is set.
void AttendShortGrad(const ShortRows<float>& rows, const float* out, const float* logsum,
                     const float* grad_out, float* grad_qkv, const ShortPrefixGrad& prefix);
void AttendShortGrad(const ShortRows<Bf16>& rows, const Bf16* out, const float* logsum,
                     const Bf16* grad_out, Bf16* grad_qkv, const ShortPrefixGrad& prefix);

}  // namespace buttress
