#include "lib/policy/cpu/paged_kernels.h"

#include <algorithm>
#include <cmath>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

static_assert(kCacheBlock == kLanes);

template <class T>
BUTTRESS_INLINE void StoreBody(const PagedLayer<T>& cache, const std::int32_t* blocks,
                               std::int64_t position, const T* k, const T* v) {
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

// Computes the scores of a block for one query head. Four partial sums hide the latency of the
// additions.
template <class T>
BUTTRESS_INLINE void ScoreBlock(const T* keys, const float* q, std::int64_t C, float* scores) {
  Lanes sums[4] = {};
  Lanes key;
  std::int64_t i = 0;
  for (; i + 4 <= C; i += 4) {
    for (int n = 0; n < 4; ++n) {
      LoadLanes(keys + (i + n) * kCacheBlock, key);
      sums[n] += key * q[i + n];
    }
  }
  for (; i < C; ++i) {
    LoadLanes(keys + i * kCacheBlock, key);
    sums[0] += key * q[i];
  }
  StoreLanes((sums[0] + sums[1]) + (sums[2] + sums[3]), scores);
}

// Replaces `length` scores with their softmax.
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

// Caps the scores, and excludes the first `excluded` from the softmax.
BUTTRESS_INLINE void CapScores(float* scores, std::int64_t excluded, std::int64_t length,
                               float cap) {
  if (cap > 0) {
    const float inverse = 1.0f / cap;
#pragma omp simd
    for (std::int64_t p = 0; p < length; ++p) scores[p] = cap * Tanh(scores[p] * inverse);
  }
  for (std::int64_t p = 0; p < excluded; ++p) scores[p] = -INFINITY;
}

// Computes values c to c + kLanes of the output, the weighted sum over the positions, in registers.
// `blocks` begins with the block of weights[0].
template <class T>
BUTTRESS_INLINE void MixLanes(const PagedLayer<T>& cache, const std::int32_t* blocks,
                              std::int64_t length, std::int64_t j, std::int64_t c,
                              const float* weights, T* out) {
  Lanes sums[4] = {};
  Lanes value;
  const std::int64_t C = cache.C;
  for (std::int64_t first = 0; first < length; first += kCacheBlock) {
    const T* values =
        cache.values + (blocks[first / kCacheBlock] * cache.K + j) * C * kCacheBlock + c;
    const float* w = weights + first;
    if (first + kCacheBlock <= length) {
      for (int p = 0; p < kCacheBlock; ++p) {
        LoadLanes(values + p * C, value);
        sums[p % 4] += value * w[p];
      }
    } else {
      for (std::int64_t p = 0; p < length - first; ++p) {
        LoadLanes(values + p * C, value);
        sums[0] += value * w[p];
      }
    }
  }
  StoreLanes((sums[0] + sums[1]) + (sums[2] + sums[3]), out + c);
}

// Computes value c of the output, for values beyond the last multiple of kLanes.
template <class T>
BUTTRESS_INLINE void MixOne(const PagedLayer<T>& cache, const std::int32_t* blocks,
                            std::int64_t length, std::int64_t j, std::int64_t c,
                            const float* weights, T* out) {
  float sum = 0;
  for (std::int64_t p = 0; p < length; ++p) {
    const std::int64_t row =
        (blocks[p / kCacheBlock] * cache.K + j) * kCacheBlock + p % kCacheBlock;
    sum += weights[p] * Get(cache.values[row * cache.C + c]);
  }
  Put(out[c], sum);
}

template <class T>
BUTTRESS_INLINE void AttendBody(const PagedLayer<T>& cache, const PagedRow& row,
                                const PagedScores& spec, const T* q, T* out, float* scratch) {
  const std::int64_t C = cache.C;
  const std::int64_t groups = spec.H / cache.K;
  const std::int32_t* blocks = row.blocks + row.begin / kCacheBlock;
  const std::int64_t excluded = row.begin % kCacheBlock;  // before `begin` in its block
  const std::int64_t length = row.end - row.begin + excluded;
  float* query = scratch;
  float* scores = query + C;
  for (std::int64_t h = 0; h < spec.H; ++h, q += C, out += C) {
    const std::int64_t j = h / groups;
#pragma omp simd
    for (std::int64_t c = 0; c < C; ++c) query[c] = Get(q[c]) * spec.scale;
    for (std::int64_t first = 0; first < length; first += kCacheBlock) {
      ScoreBlock(cache.keys + (blocks[first / kCacheBlock] * cache.K + j) * C * kCacheBlock, query,
                 C, scores + first);
    }
    CapScores(scores, excluded, length, spec.score_cap);
    Softmax(scores, length);
    std::int64_t c = 0;
    for (; c + kLanes <= C; c += kLanes) MixLanes(cache, blocks, length, j, c, scores, out);
    for (; c < C; ++c) MixOne(cache, blocks, length, j, c, scores, out);
  }
}

}  // namespace

BUTTRESS_KERNEL void StoreRow(const PagedLayer<float>& cache, const std::int32_t* blocks,
                              std::int64_t position, const float* k, const float* v) {
  StoreBody(cache, blocks, position, k, v);
}

BUTTRESS_KERNEL void StoreRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks,
                              std::int64_t position, const Bf16* k, const Bf16* v) {
  StoreBody(cache, blocks, position, k, v);
}

BUTTRESS_KERNEL void AttendRow(const PagedLayer<float>& cache, const PagedRow& row,
                               const PagedScores& spec, const float* q, float* out,
                               float* scratch) {
  AttendBody(cache, row, spec, q, out, scratch);
}

BUTTRESS_KERNEL void AttendRow(const PagedLayer<Bf16>& cache, const PagedRow& row,
                               const PagedScores& spec, const Bf16* q, Bf16* out, float* scratch) {
  AttendBody(cache, row, spec, q, out, scratch);
}

std::int64_t AttendScratch(std::int64_t C, std::int64_t end) {
  return C + (end + kCacheBlock - 1) / kCacheBlock * kCacheBlock;
}

}  // namespace buttress
