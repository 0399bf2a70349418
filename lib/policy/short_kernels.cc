// For a query row i and key rows j <= i of one head, with s = scale:
//   S = s q k^T   P = exp(S - logsum)   O = P V
//   dV = P^T dO   dP = dO V^T   dS = P * (dP - rowsum(dO * O))   dq = s dS k   dk = s dS^T q
#include "lib/policy/short_kernels.h"

#include <algorithm>
#include <cmath>

#include "lib/policy/cpu_vector.h"

namespace buttress {
namespace {

// One head as float32, rows `width` values apart: C rounded up to whole registers, the rest zero.
struct Head {
  alignas(64) float values[kShortLength * kShortHead];
};

template <class T>
BUTTRESS_INLINE void ReadHead(const T* from, std::int64_t stride, std::int64_t length, std::int64_t C, std::int64_t width, float factor,
                              Head& head) {
  for (std::int64_t t = 0; t < length; ++t) {
    float* to = head.values + t * width;
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) to[c] = Get(from[t * stride + c]) * factor;
    for (std::int64_t c = C; c < width; ++c) to[c] = 0;
  }
}

template <class T>
BUTTRESS_INLINE void WriteHead(const Head& head, std::int64_t stride, std::int64_t length, std::int64_t C, std::int64_t width, T* to) {
  for (std::int64_t t = 0; t < length; ++t) {
    const float* from = head.values + t * width;
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

template <class T>
BUTTRESS_INLINE void AttendShortBody(const ShortRows<T>& a, T* out, float* logsum) {
  const std::int64_t width = WidthOf(a.C);
  const float scale = 1.0f / std::sqrt(static_cast<float>(a.C));
  Head q, k, v;
  alignas(64) float scores[kShortLength];
  alignas(64) float sum[kShortHead];
  for (std::int64_t h = 0; h < a.H; ++h) {
    const std::int64_t j = h / (a.H / a.K);
    ReadHead(a.qkv + h * a.C, a.stride, a.length, a.C, width, scale, q);
    if (h % (a.H / a.K) == 0) {
      ReadHead(a.qkv + (a.H + j) * a.C, a.stride, a.length, a.C, width, 1.0f, k);
      ReadHead(a.qkv + (a.H + a.K + j) * a.C, a.stride, a.length, a.C, width, 1.0f, v);
    }
    for (std::int64_t i = 0; i < a.length; ++i) {
      float top = -INFINITY;
      for (std::int64_t p = 0; p <= i; ++p) {
        scores[p] = Dot(q.values + i * width, k.values + p * width, width);
        top = std::max(top, scores[p]);
      }
      float total = 0;
#pragma omp simd reduction(+ : total)
      for (std::int64_t p = 0; p <= i; ++p) {
        scores[p] = Exp(scores[p] - top);
        total += scores[p];
      }
      const float inverse = 1.0f / total;
      for (std::int64_t c = 0; c < width; ++c) sum[c] = 0;
      for (std::int64_t p = 0; p <= i; ++p) Add(scores[p] * inverse, v.values + p * width, sum, width);
      T* to = out + (i * a.H + h) * a.C;
#pragma omp simd
      for (std::int64_t c = 0; c < a.C; ++c) Put(to[c], sum[c]);
      if (logsum != nullptr) logsum[i * a.H + h] = top + std::log(total);
    }
  }
}

template <class T>
BUTTRESS_INLINE void AttendShortGradBody(const ShortRows<T>& a, const T* out, const float* logsum, const T* grad_out, T* grad_qkv) {
  const std::int64_t width = WidthOf(a.C);
  const std::int64_t groups = a.H / a.K;
  const float scale = 1.0f / std::sqrt(static_cast<float>(a.C));
  Head q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  alignas(64) float p[kShortLength];
  for (std::int64_t h = 0; h < a.H; ++h) {
    const std::int64_t j = h / groups;
    if (h % groups == 0) {
      ReadHead(a.qkv + (a.H + j) * a.C, a.stride, a.length, a.C, width, 1.0f, k);
      ReadHead(a.qkv + (a.H + a.K + j) * a.C, a.stride, a.length, a.C, width, 1.0f, v);
      std::fill_n(grad_k.values, a.length * width, 0.0f);
      std::fill_n(grad_v.values, a.length * width, 0.0f);
    }
    ReadHead(a.qkv + h * a.C, a.stride, a.length, a.C, width, scale, q);
    ReadHead(out + h * a.C, a.H * a.C, a.length, a.C, width, 1.0f, o);
    ReadHead(grad_out + h * a.C, a.H * a.C, a.length, a.C, width, 1.0f, grad_o);
    std::fill_n(grad_q.values, a.length * width, 0.0f);
    for (std::int64_t i = 0; i < a.length; ++i) {
      const std::int64_t row = i * width;
      const float mean = Dot(grad_o.values + row, o.values + row, width);
      for (std::int64_t s = 0; s <= i; ++s) p[s] = Dot(q.values + row, k.values + s * width, width);
#pragma omp simd
      for (std::int64_t s = 0; s <= i; ++s) p[s] = Exp(p[s] - logsum[i * a.H + h]);
      for (std::int64_t s = 0; s <= i; ++s) {
        const float grad_p = Dot(grad_o.values + row, v.values + s * width, width);
        const float grad_s = p[s] * (grad_p - mean);
        Add(p[s], grad_o.values + row, grad_v.values + s * width, width);
        Add(grad_s * scale, k.values + s * width, grad_q.values + row, width);
        Add(grad_s, q.values + row, grad_k.values + s * width, width);  // q carries the scale
      }
    }
    WriteHead(grad_q, a.stride, a.length, a.C, width, grad_qkv + h * a.C);
    if (h % groups == groups - 1) {
      WriteHead(grad_k, a.stride, a.length, a.C, width, grad_qkv + (a.H + j) * a.C);
      WriteHead(grad_v, a.stride, a.length, a.C, width, grad_qkv + (a.H + a.K + j) * a.C);
    }
  }
}

}  // namespace

BUTTRESS_KERNEL void AttendShort(const ShortRows<float>& rows, float* out, float* logsum) { AttendShortBody(rows, out, logsum); }

BUTTRESS_KERNEL void AttendShort(const ShortRows<Bf16>& rows, Bf16* out, float* logsum) { AttendShortBody(rows, out, logsum); }

BUTTRESS_KERNEL void AttendShortGrad(const ShortRows<float>& rows, const float* out, const float* logsum, const float* grad_out,
                                     float* grad_qkv) {
  AttendShortGradBody(rows, out, logsum, grad_out, grad_qkv);
}

BUTTRESS_KERNEL void AttendShortGrad(const ShortRows<Bf16>& rows, const Bf16* out, const float* logsum, const Bf16* grad_out,
                                     Bf16* grad_qkv) {
  AttendShortGradBody(rows, out, logsum, grad_out, grad_qkv);
}

}  // namespace buttress
