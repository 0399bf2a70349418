#include "lib/policy/cpu/paged_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// Adds the weighted values of `count` positions of a block to `sum` [C].
template <class T>
BUTTRESS_INLINE void MixBlock(const T* values, std::int64_t C, const float* weights,
                              std::int64_t count, float* sum) {
  std::int64_t c = 0;
  for (; c + kLanes <= C; c += kLanes) {
    Lanes sums[2] = {};
    Lanes value;
    LoadLanes(sum + c, sums[0]);
    for (std::int64_t p = 0; p < count; ++p) {
      LoadLanes(values + p * C + c, value);
      sums[p % 2] += value * weights[p];
    }
    StoreLanes(sums[0] + sums[1], sum + c);
  }
  for (; c < C; ++c) {
    for (std::int64_t p = 0; p < count; ++p) sum[c] += weights[p] * Get(values[p * C + c]);
  }
}

// The query heads that share a key-value head read its blocks together. A head's result does not
// depend on the others.
template <class T>
BUTTRESS_INLINE void AttendBody(const PagedLayer<T>& cache, const PagedRow& row,
                                const PagedScores& spec, const T* q, T* out, float* scratch) {
  const std::int64_t C = cache.C;
  const std::int64_t heads = spec.H / cache.K;
  const std::int32_t* blocks = row.blocks + row.begin / kCacheBlock;
  const std::int64_t excluded = row.begin % kCacheBlock;  // before `begin` in its block
  const std::int64_t length = row.end - row.begin + excluded;
  const std::int64_t room = (length + kCacheBlock - 1) / kCacheBlock * kCacheBlock;
  float* queries = scratch;           // [heads, C]
  float* sums = queries + heads * C;  // [heads, C]
  float* scores = sums + heads * C;   // [heads, room]
  const auto at = [&](const T* all, std::int64_t position, std::int64_t j) {
    return all + (blocks[position / kCacheBlock] * cache.K + j) * C * kCacheBlock;
  };
  for (std::int64_t j = 0; j < cache.K; ++j, q += heads * C, out += heads * C) {
#pragma omp simd
    for (std::int64_t c = 0; c < heads * C; ++c) queries[c] = Get(q[c]) * spec.scale;
    for (std::int64_t first = 0; first < length; first += kCacheBlock) {
      for (std::int64_t h = 0; h < heads; ++h)
        ScoreBlock(at(cache.keys, first, j), queries + h * C, C, scores + h * room + first);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      CapScores(scores + h * room, excluded, length, spec.score_cap);
      Softmax(scores + h * room, length);
    }
    std::memset(sums, 0, static_cast<std::size_t>(heads * C) * sizeof(float));
    for (std::int64_t first = 0; first < length; first += kCacheBlock) {
      const std::int64_t count = std::min(kCacheBlock, length - first);
      for (std::int64_t h = 0; h < heads; ++h)
        MixBlock(at(cache.values, first, j), C, scores + h * room + first, count, sums + h * C);
    }
#pragma omp simd
    for (std::int64_t c = 0; c < heads * C; ++c) Put(out[c], sums[c]);
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

std::int64_t AttendScratch(std::int64_t heads, std::int64_t C, std::int64_t end) {
  return heads * (2 * C + (end / kCacheBlock + 2) * kCacheBlock);
}

}  // namespace buttress
