// CPU kernels for the paged key-value cache of one layer: storing a row, and the attention of a row
// to the cache. layer_kernels.h describes what all kernels have in common.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The positions of a block; their scores fill one AVX-512 register.
inline constexpr std::int64_t kCacheBlock = 16;

// K key-value heads of C values each.
//   keys   [blocks, K, C, kCacheBlock]: the positions of a block are adjacent, so that one query
//          value is multiplied with sixteen keys at once
//   values [blocks, K, kCacheBlock, C]
template <class T>
struct PagedLayer {
  T* keys;
  T* values;
  std::int64_t K;
  std::int64_t C;
};

// Stores the keys and values [K, C] of one row at `position` of the sequence with `blocks`.
void StoreRow(const PagedLayer<float>& cache, const std::int32_t* blocks, std::int64_t position,
              const float* k, const float* v);
void StoreRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks, std::int64_t position,
              const Bf16* k, const Bf16* v);

// The positions that a row attends to: `begin` to `end` - 1 of the sequence with `blocks`.
struct PagedRow {
  const std::int32_t* blocks;
  std::int64_t begin;
  std::int64_t end;
};

// out [H, C] = softmax(s) v over the positions of the row, where s = scale q k^T, or
// cap tanh(scale q k^T / cap) if score_cap is not 0. `scratch` has room for
// AttendScratch(H / K, C, end) floats.
struct PagedScores {
  std::int64_t H;
  float scale;
  float score_cap;
};

void AttendRow(const PagedLayer<float>& cache, const PagedRow& row, const PagedScores& spec,
               const float* q, float* out, float* scratch);
void AttendRow(const PagedLayer<Bf16>& cache, const PagedRow& row, const PagedScores& spec,
               const Bf16* q, Bf16* out, float* scratch);
std::int64_t AttendScratch(std::int64_t heads, std::int64_t C, std::int64_t end);

}  // namespace buttress
