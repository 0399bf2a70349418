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

// The scores and sums of kHeads query heads that share a key-value head, whose rows are `stride`
// values apart. What a head gets does not depend on the others.
struct HeadRows {
  float* values;
  std::int64_t stride;

  float* of(std::int64_t h) const { return values + h * stride; }
};

// Computes the scores of a block. Enough partial sums hide the latency of the additions.
template <int kHeads, class T>
BUTTRESS_INLINE void ScoreBlock(const T* keys, const HeadRows& q, std::int64_t C,
                                const HeadRows& scores) {
  constexpr int kParts = kHeads >= 4 ? 1 : 4 / kHeads;
  Lanes sums[kParts][kHeads] = {};
  Lanes key;
  std::int64_t i = 0;
  for (; i + kParts <= C; i += kParts) {
    for (int n = 0; n < kParts; ++n) {
      LoadLanes(keys + (i + n) * kCacheBlock, key);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) sums[n][h] += key * q.of(h)[i + n];
    }
  }
  for (; i < C; ++i) {
    LoadLanes(keys + i * kCacheBlock, key);
    for (int h = 0; h < kHeads; ++h) sums[0][h] += key * q.of(h)[i];
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int n = 1; n < kParts; ++n) sums[0][h] += sums[n][h];
    StoreLanes(sums[0][h], scores.of(h));
  }
}

// Replaces `length` scores with their softmax.
BUTTRESS_INLINE void Softmax(float* scores, std::int64_t length) {
  float top = scores[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t p = 0; p < length; ++p) top = scores[p] > top ? scores[p] : top;
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

// Adds the weighted values of `count` positions of a block to the sums of the heads, [C] each.
template <int kHeads, class T>
BUTTRESS_INLINE void MixBlock(const T* values, std::int64_t C, const HeadRows& weights,
                              std::int64_t count, const HeadRows& sums) {
  std::int64_t c = 0;
  for (; c + kLanes <= C; c += kLanes) {
    Lanes of_head[kHeads];
    Lanes value;
    for (int h = 0; h < kHeads; ++h) LoadLanes(sums.of(h) + c, of_head[h]);
    for (std::int64_t p = 0; p < count; ++p) {
      LoadLanes(values + p * C + c, value);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) of_head[h] += value * weights.of(h)[p];
    }
    for (int h = 0; h < kHeads; ++h) StoreLanes(of_head[h], sums.of(h) + c);
  }
  for (; c < C; ++c) {
    for (int h = 0; h < kHeads; ++h) {
      for (std::int64_t p = 0; p < count; ++p)
        sums.of(h)[c] += weights.of(h)[p] * Get(values[p * C + c]);
    }
  }
}

// The positions of a row in the cache, from the block of its first one on.
template <class T>
struct RowBlocks {
  const PagedLayer<T>& cache;
  const std::int32_t* blocks;
  std::int64_t excluded;  // positions of the first block before the row's first
  std::int64_t length;    // with these

  // The part of key-value head `j` of the block with `position`.
  const T* At(const T* all, std::int64_t position, std::int64_t j) const {
    const std::int64_t block = blocks[position / kCacheBlock];
    return all + (block * cache.K + j) * cache.C * kCacheBlock;
  }
};

// Attends with kHeads heads whose queries are `q` [kHeads, C], with the rest of `scratch` behind.
template <int kHeads, class T>
BUTTRESS_INLINE void AttendHeads(const RowBlocks<T>& row, const PagedScores& spec, std::int64_t j,
                                 const T* q, T* out, float* scratch) {
  const std::int64_t C = row.cache.C;
  const HeadRows queries = {scratch, C};
  const HeadRows sums = {queries.of(kHeads), C};
  const HeadRows scores = {sums.of(kHeads),
                           (row.length + kCacheBlock - 1) / kCacheBlock * kCacheBlock};
#pragma omp simd
  for (std::int64_t c = 0; c < kHeads * C; ++c) {
    queries.values[c] = Get(q[c]) * spec.scale;
    sums.values[c] = 0;
  }
  for (std::int64_t first = 0; first < row.length; first += kCacheBlock) {
    ScoreBlock<kHeads>(row.At(row.cache.keys, first, j), queries, C,
                       {scores.values + first, scores.stride});
  }
  for (int h = 0; h < kHeads; ++h) {
    CapScores(scores.of(h), row.excluded, row.length, spec.score_cap);
    Softmax(scores.of(h), row.length);
  }
  for (std::int64_t first = 0; first < row.length; first += kCacheBlock) {
    MixBlock<kHeads>(row.At(row.cache.values, first, j), C, {scores.values + first, scores.stride},
                     std::min(kCacheBlock, row.length - first), sums);
  }
#pragma omp simd
  for (std::int64_t c = 0; c < kHeads * C; ++c) Put(out[c], sums.values[c]);
}

// The query heads that share a key-value head read its blocks together, up to eight at a time.
template <class T>
BUTTRESS_INLINE void AttendBody(const PagedLayer<T>& cache, const PagedRow& at,
                                const PagedScores& spec, const T* q, T* out, float* scratch) {
  const std::int64_t excluded = at.begin % kCacheBlock;
  const RowBlocks<T> row = {cache, at.blocks + at.begin / kCacheBlock, excluded,
                            at.end - at.begin + excluded};
  const std::int64_t heads = spec.H / cache.K;
  for (std::int64_t j = 0; j < cache.K; ++j) {
    for (std::int64_t left = heads, some = 0; left > 0; left -= some) {
      if (left >= 8) {
        AttendHeads<8>(row, spec, j, q, out, scratch);
        some = 8;
      } else if (left >= 4) {
        AttendHeads<4>(row, spec, j, q, out, scratch);
        some = 4;
      } else if (left >= 2) {
        AttendHeads<2>(row, spec, j, q, out, scratch);
        some = 2;
      } else {
        AttendHeads<1>(row, spec, j, q, out, scratch);
        some = 1;
      }
      q += some * cache.C;
      out += some * cache.C;
    }
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
