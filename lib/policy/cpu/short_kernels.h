// CPU kernels of causal attention within one short sequence, forward and backward, over packed
// rows. layer_kernels.h describes what all kernels have in common.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The largest C, and the longest sequence with its prefix, that the kernels support.
inline constexpr std::int64_t kShortHead = 128;
inline constexpr std::int64_t kShortLength = 64;

// The T rows of one sequence, `stride` values apart: H query heads, K key heads and K value heads
// of C values each. The rows of `out` are H * C values apart. Each row attends to all rows of the
// prefix, and to the rows of its own sequence up to itself.
template <class T>
struct ShortRows {
  const T* qkv;
  std::int64_t length;
  const T* prefix;  // the rows of the sequence that this one continues
  std::int64_t prefix_length;
  std::int64_t stride;
  std::int64_t H;
  std::int64_t K;
  std::int64_t C;
  float scale;  // of the scores
};

// Computes out [T, H, C]. Unless it is null, sets logsum [T, H] to the logarithms of the
// denominators of the softmax, for the backward pass.
void AttendShort(const ShortRows<float>& rows, float* out, float* logsum);
void AttendShort(const ShortRows<Bf16>& rows, Bf16* out, float* logsum);

// The sums through which continuations pass the gradients of keys and values to their prefix:
// [prefix_length, 2K, C], in float32.
struct ShortPrefixGrad {
  float* of_prefix;     // a continuation adds to it; null without a prefix
  const float* so_far;  // what the continuations of these rows added; null without continuations
};

// Computes the gradient of AttendShort with respect to the qkv of the sequence, in rows `stride`
// values apart, and sets all of it.
void AttendShortGrad(const ShortRows<float>& rows, const float* out, const float* logsum,
                     const float* grad_out, float* grad_qkv, const ShortPrefixGrad& prefix);
void AttendShortGrad(const ShortRows<Bf16>& rows, const Bf16* out, const float* logsum,
                     const Bf16* grad_out, Bf16* grad_qkv, const ShortPrefixGrad& prefix);

}  // namespace buttress
