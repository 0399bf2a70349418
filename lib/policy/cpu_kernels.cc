#include "lib/policy/cpu_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

// Bodies are templates over the storage, inlined into one function per instruction set and storage.
#define BUTTRESS_INLINE [[gnu::always_inline]] static inline
#if defined(__x86_64__)
#define BUTTRESS_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BUTTRESS_KERNEL
#endif

namespace buttress {
namespace {

BUTTRESS_INLINE float Get(float x) { return x; }

BUTTRESS_INLINE float Get(Bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

BUTTRESS_INLINE void Put(float& to, float x) { to = x; }

// Rounds to the nearest, ties to even; a NaN stays one.
BUTTRESS_INLINE void Put(Bf16& to, float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<std::uint16_t>(x != x ? 0x7FC0u : rounded);
}

// e^x within 2 ulp for x in [-87, 88]; below it 0. Cephes' expf without its table, so that loops over it become vector code.
BUTTRESS_INLINE float Exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
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
  return x < -87.0f ? 0.0f : scaled + (x - x);  // x - x carries a NaN or an infinity on
}

template <class T>
BUTTRESS_INLINE void RmsNormBody(const T* x, const T* weight, T* out, float* scale, std::int64_t rows, std::int64_t D, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += D, out += D) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < D; ++i) sum += Get(x[i]) * Get(x[i]);
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(D) + eps);
    if (scale != nullptr) scale[r] = factor;
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) {
      T normed;
      Put(normed, Get(x[i]) * factor);
      Put(out[i], Get(weight[i]) * Get(normed));
    }
  }
}

template <class T>
BUTTRESS_INLINE void SwiGluBody(const T* gate, const T* up, T* out, std::int64_t rows, std::int64_t F, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r, gate += stride, up += stride, out += F) {
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float g = Get(gate[i]);
      Put(out[i], g / (1.0f + Exp(-g)) * Get(up[i]));
    }
  }
}

template <class T>
BUTTRESS_INLINE void RopeBody(const T* x, T* out, const RopeRowsArgs& a) {
  const std::int64_t half = a.C / 2;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* cos = a.cos + a.positions[r] * a.C;
    const float* sin = a.sin + a.positions[r] * a.C;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const T* in = x + r * a.stride + h * a.C;
      T* to = out + (r * a.heads + h) * a.C;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float left = Get(in[i]);
        const float right = Get(in[i + half]);
        Put(to[i], left * cos[i] + right * sin[i]);
        Put(to[i + half], right * cos[i + half] + left * sin[i + half]);
      }
    }
  }
}

template <class T>
BUTTRESS_INLINE void StoreBody(const PagedLayer<T>& cache, const std::int32_t* blocks, std::int64_t position, const T* k, const T* v) {
  const std::int64_t head_values = cache.C * kCacheBlock;
  const std::int64_t slot = position % kCacheBlock;
  const std::int64_t block = blocks[position / kCacheBlock] * cache.K * head_values;
  for (std::int64_t j = 0; j < cache.K; ++j) {
    T* keys = cache.keys + block + j * head_values + slot;
    T* values = cache.values + block + j * head_values + slot * cache.C;
    for (std::int64_t c = 0; c < cache.C; ++c) {
      keys[c * kCacheBlock] = k[j * cache.C + c];
      values[c] = v[j * cache.C + c];
    }
  }
}

// Scores of sixteen positions for one query head.
template <class T>
BUTTRESS_INLINE void ScoreBlock(const T* keys, const float* q, std::int64_t C, float* scores) {
  float sum[kCacheBlock] = {};
  for (std::int64_t c = 0; c < C; ++c) {
#pragma omp simd
    for (std::int64_t p = 0; p < kCacheBlock; ++p) sum[p] += q[c] * Get(keys[c * kCacheBlock + p]);
  }
  for (std::int64_t p = 0; p < kCacheBlock; ++p) scores[p] = sum[p];
}

// Turns `length` scores into probabilities.
BUTTRESS_INLINE void Softmax(float* scores, std::int64_t length) {
  float top = scores[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t p = 0; p < length; ++p) top = std::max(top, scores[p]);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t p = 0; p < length; ++p) {
    scores[p] = Exp(scores[p] - top);
    sum += scores[p];
  }
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (std::int64_t p = 0; p < length; ++p) scores[p] *= inverse;
}

template <class T>
BUTTRESS_INLINE void AttendBody(const PagedLayer<T>& cache, const std::int32_t* blocks, std::int64_t length, std::int64_t groups,
                                const T* q, T* out, float* scratch) {
  const std::int64_t C = cache.C;
  const std::int64_t head_values = C * kCacheBlock;
  const std::int64_t used = (length + kCacheBlock - 1) / kCacheBlock;
  float* query = scratch;
  float* sum = query + C;
  float* scores = sum + C;
  const float scale = 1.0f / std::sqrt(static_cast<float>(C));
  for (std::int64_t h = 0; h < cache.K * groups; ++h) {
    const std::int64_t j = h / groups;
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) query[c] = Get(q[h * C + c]) * scale;
    for (std::int64_t b = 0; b < used; ++b) {
      ScoreBlock(cache.keys + (blocks[b] * cache.K + j) * head_values, query, C, scores + b * kCacheBlock);
    }
    Softmax(scores, length);
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) sum[c] = 0;
    for (std::int64_t p = 0; p < length; ++p) {
      const T* values = cache.values + (blocks[p / kCacheBlock] * cache.K + j) * head_values + (p % kCacheBlock) * C;
      const float weight = scores[p];
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) sum[c] += weight * Get(values[c]);
    }
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) Put(out[h * C + c], sum[c]);
  }
}

}  // namespace

BUTTRESS_KERNEL void RmsNormRows(const float* x, const float* weight, float* out, float* scale, std::int64_t rows, std::int64_t D,
                                 float eps) {
  RmsNormBody(x, weight, out, scale, rows, D, eps);
}

BUTTRESS_KERNEL void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale, std::int64_t rows, std::int64_t D,
                                 float eps) {
  RmsNormBody(x, weight, out, scale, rows, D, eps);
}

BUTTRESS_KERNEL void SwiGluRows(const float* gate, const float* up, float* out, std::int64_t rows, std::int64_t F,
                                std::int64_t stride) {
  SwiGluBody(gate, up, out, rows, F, stride);
}

BUTTRESS_KERNEL void SwiGluRows(const Bf16* gate, const Bf16* up, Bf16* out, std::int64_t rows, std::int64_t F, std::int64_t stride) {
  SwiGluBody(gate, up, out, rows, F, stride);
}

BUTTRESS_KERNEL void RopeRows(const float* x, float* out, const RopeRowsArgs& args) { RopeBody(x, out, args); }

BUTTRESS_KERNEL void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args) { RopeBody(x, out, args); }

BUTTRESS_KERNEL void StoreRow(const PagedLayer<float>& cache, const std::int32_t* blocks, std::int64_t position, const float* k,
                              const float* v) {
  StoreBody(cache, blocks, position, k, v);
}

BUTTRESS_KERNEL void StoreRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks, std::int64_t position, const Bf16* k,
                              const Bf16* v) {
  StoreBody(cache, blocks, position, k, v);
}

BUTTRESS_KERNEL void AttendRow(const PagedLayer<float>& cache, const std::int32_t* blocks, std::int64_t length, std::int64_t groups,
                               const float* q, float* out, float* scratch) {
  AttendBody(cache, blocks, length, groups, q, out, scratch);
}

BUTTRESS_KERNEL void AttendRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks, std::int64_t length, std::int64_t groups,
                               const Bf16* q, Bf16* out, float* scratch) {
  AttendBody(cache, blocks, length, groups, q, out, scratch);
}

std::int64_t AttendScratch(std::int64_t C, std::int64_t length) {
  return 2 * C + (length + kCacheBlock - 1) / kCacheBlock * kCacheBlock;
}

BUTTRESS_KERNEL float ExpRow(const float* logits, float scale, float* weights, double* sums, std::int64_t V) {
  const float top = MaxOf(logits, V);
  for (std::int64_t first = 0; first < V; first += kSumRun) {
    const std::int64_t end = std::min(V, first + kSumRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < end; ++i) {
      weights[i] = Exp((logits[i] - top) * scale);
      sum += weights[i];
    }
    sums[first / kSumRun] = static_cast<double>(sum);
  }
  return top;
}

BUTTRESS_KERNEL float MaxOf(const float* values, std::int64_t count) {
  float top = -std::numeric_limits<float>::infinity();
  float poison = 0;
#pragma omp simd reduction(max : top) reduction(+ : poison)
  for (std::int64_t i = 0; i < count; ++i) {
    top = values[i] > top ? values[i] : top;
    poison += values[i] == values[i] ? 0.0f : 1.0f;
  }
  return poison > 0 ? std::numeric_limits<float>::quiet_NaN() : top;
}

BUTTRESS_KERNEL void ToFloat(const Bf16* from, float* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = Get(from[i]);
}

}  // namespace buttress
