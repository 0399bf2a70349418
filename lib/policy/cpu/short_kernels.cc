// For a query row i and key rows j <= i of one head, with s = scale:
//   S = s q k^T   P = exp(S - logsum)   O = P V
//   dV = P^T dO   dP = dO V^T   dS = P * (dP - rowsum(dO * O))   dq = s dS k   dk = s dS^T q
#include "lib/policy/cpu/short_kernels.h"

#include <algorithm>
#include <cmath>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

// One head in float32. Its rows are `width` values apart, which is C rounded up to whole registers;
// the values beyond C are zero.
struct Head {
  alignas(64) float values[kShortLength * kShortHead];
};

template <class T>
BUTTRESS_INLINE void ReadHead(const T* from, std::int64_t stride, std::int64_t length,
                              std::int64_t C, std::int64_t width, float factor, float* head) {
  for (std::int64_t t = 0; t < length; ++t) {
    float* to = head + t * width;
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) to[c] = Get(from[t * stride + c]) * factor;
    for (std::int64_t c = C; c < width; ++c) to[c] = 0;
  }
}

template <class T>
BUTTRESS_INLINE void WriteHead(const float* head, std::int64_t stride, std::int64_t length,
                               std::int64_t C, std::int64_t width, T* to) {
  for (std::int64_t t = 0; t < length; ++t) {
    const float* from = head + t * width;
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) Put(to[t * stride + c], from[c]);
  }
}

BUTTRESS_INLINE float Dot(const float* a, const float* b, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

BUTTRESS_INLINE void Add(float weight, const float* from, float* to, std::int64_t width) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) to[c] += weight * from[c];
}

BUTTRESS_INLINE std::int64_t WidthOf(std::int64_t C) { return (C + kLanes - 1) / kLanes * kLanes; }

// Reads the keys or values of head `head` (of all H + 2K): the rows of the prefix, then those of
// the sequence.
template <class T>
BUTTRESS_INLINE void ReadKeys(const ShortRows<T>& a, std::int64_t head, std::int64_t width,
                              Head& to) {
  ReadHead(a.prefix + head * a.C, a.stride, a.prefix_length, a.C, width, 1.0f, to.values);
  ReadHead(a.qkv + head * a.C, a.stride, a.length, a.C, width, 1.0f,
           to.values + a.prefix_length * width);
}

template <class T>
BUTTRESS_INLINE void AttendShortBody(const ShortRows<T>& a, T* out, float* logsum) {
  const std::int64_t width = WidthOf(a.C);
  const std::int64_t groups = a.H / a.K;
  const float scale = a.scale;
  Head q, k, v;
  alignas(64) float scores[kShortLength];
  alignas(64) float sum[kShortHead];
  for (std::int64_t h = 0; h < a.H; ++h) {
    const std::int64_t j = h / groups;
    ReadHead(a.qkv + h * a.C, a.stride, a.length, a.C, width, scale, q.values);
    if (h % groups == 0) {
      ReadKeys(a, a.H + j, width, k);
      ReadKeys(a, a.H + a.K + j, width, v);
    }
    for (std::int64_t i = 0; i < a.length; ++i) {
      const std::int64_t keys = a.prefix_length + i + 1;
      float top = -INFINITY;
      for (std::int64_t s = 0; s < keys; ++s) {
        scores[s] = Dot(q.values + i * width, k.values + s * width, width);
        top = std::max(top, scores[s]);
      }
      float total = 0;
#pragma omp simd reduction(+ : total)
      for (std::int64_t s = 0; s < keys; ++s) {
        scores[s] = Exp(scores[s] - top);
        total += scores[s];
      }
      const float inverse = 1.0f / total;
      for (std::int64_t c = 0; c < width; ++c) sum[c] = 0;
      for (std::int64_t s = 0; s < keys; ++s)
        Add(scores[s] * inverse, v.values + s * width, sum, width);
      T* to = out + (i * a.H + h) * a.C;
#pragma omp simd
      for (std::int64_t c = 0; c < a.C; ++c) Put(to[c], sum[c]);
      if (logsum != nullptr) logsum[i * a.H + h] = top + std::log(total);
    }
  }
}

// Initializes the gradient of the keys or values of one head with the sums of its continuations.
BUTTRESS_INLINE void StartGrad(const float* so_far, std::int64_t stride, std::int64_t prefix_length,
                               std::int64_t length, std::int64_t C, std::int64_t width,
                               Head& grad) {
  std::fill_n(grad.values, (prefix_length + length) * width, 0.0f);
  if (so_far != nullptr)
    ReadHead(so_far, stride, length, C, width, 1.0f, grad.values + prefix_length * width);
}

BUTTRESS_INLINE void AddToPrefix(const Head& grad, std::int64_t stride, std::int64_t prefix_length,
                                 std::int64_t C, std::int64_t width, float* to) {
  for (std::int64_t t = 0; t < prefix_length; ++t) {
    for (std::int64_t c = 0; c < C; ++c) to[t * stride + c] += grad.values[t * width + c];
  }
}

template <class T>
BUTTRESS_INLINE void AttendShortGradBody(const ShortRows<T>& a, const T* out, const float* logsum,
                                         const T* grad_out, T* grad_qkv,
                                         const ShortPrefixGrad& prefix) {
  const std::int64_t width = WidthOf(a.C);
  const std::int64_t groups = a.H / a.K;
  const std::int64_t prefix_stride = 2 * a.K * a.C;
  const std::int64_t own = a.prefix_length * width;
  const float scale = a.scale;
  Head q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  alignas(64) float p[kShortLength];
  for (std::int64_t h = 0; h < a.H; ++h) {
    const std::int64_t j = h / groups;
    const std::int64_t k_at = j * a.C;
    const std::int64_t v_at = (a.K + j) * a.C;
    if (h % groups == 0) {
      ReadKeys(a, a.H + j, width, k);
      ReadKeys(a, a.H + a.K + j, width, v);
      const auto so_far = [&](std::int64_t at) {
        return prefix.so_far == nullptr ? nullptr : prefix.so_far + at;
      };
      StartGrad(so_far(k_at), prefix_stride, a.prefix_length, a.length, a.C, width, grad_k);
      StartGrad(so_far(v_at), prefix_stride, a.prefix_length, a.length, a.C, width, grad_v);
    }
    ReadHead(a.qkv + h * a.C, a.stride, a.length, a.C, width, scale, q.values);
    ReadHead(out + h * a.C, a.H * a.C, a.length, a.C, width, 1.0f, o.values);
    ReadHead(grad_out + h * a.C, a.H * a.C, a.length, a.C, width, 1.0f, grad_o.values);
    std::fill_n(grad_q.values, a.length * width, 0.0f);
    for (std::int64_t i = 0; i < a.length; ++i) {
      const std::int64_t row = i * width;
      const std::int64_t keys = a.prefix_length + i + 1;
      const float mean = Dot(grad_o.values + row, o.values + row, width);
      for (std::int64_t s = 0; s < keys; ++s)
        p[s] = Dot(q.values + row, k.values + s * width, width);
#pragma omp simd
      for (std::int64_t s = 0; s < keys; ++s) p[s] = Exp(p[s] - logsum[i * a.H + h]);
      for (std::int64_t s = 0; s < keys; ++s) {
        const float grad_p = Dot(grad_o.values + row, v.values + s * width, width);
        const float grad_s = p[s] * (grad_p - mean);
        Add(p[s], grad_o.values + row, grad_v.values + s * width, width);
        Add(grad_s * scale, k.values + s * width, grad_q.values + row, width);
        Add(grad_s, q.values + row, grad_k.values + s * width, width);  // q carries the scale
      }
    }
    WriteHead(grad_q.values, a.stride, a.length, a.C, width, grad_qkv + h * a.C);
    if (h % groups < groups - 1) continue;
    WriteHead(grad_k.values + own, a.stride, a.length, a.C, width, grad_qkv + a.H * a.C + k_at);
    WriteHead(grad_v.values + own, a.stride, a.length, a.C, width, grad_qkv + a.H * a.C + v_at);
    if (prefix.of_prefix == nullptr) continue;
    AddToPrefix(grad_k, prefix_stride, a.prefix_length, a.C, width, prefix.of_prefix + k_at);
    AddToPrefix(grad_v, prefix_stride, a.prefix_length, a.C, width, prefix.of_prefix + v_at);
  }
}

}  // namespace

BUTTRESS_KERNEL void AttendShort(const ShortRows<float>& rows, float* out, float* logsum) {
  AttendShortBody(rows, out, logsum);
}

BUTTRESS_KERNEL void AttendShort(const ShortRows<Bf16>& rows, Bf16* out, float* logsum) {
  AttendShortBody(rows, out, logsum);
}

BUTTRESS_KERNEL void AttendShortGrad(const ShortRows<float>& rows, const float* out,
                                     const float* logsum, const float* grad_out, float* grad_qkv,
                                     const ShortPrefixGrad& prefix) {
  AttendShortGradBody(rows, out, logsum, grad_out, grad_qkv, prefix);
}

BUTTRESS_KERNEL void AttendShortGrad(const ShortRows<Bf16>& rows, const Bf16* out,
                                     const float* logsum, const Bf16* grad_out, Bf16* grad_qkv,
                                     const ShortPrefixGrad& prefix) {
  AttendShortGradBody(rows, out, logsum, grad_out, grad_qkv, prefix);
}

}  // namespace buttress
