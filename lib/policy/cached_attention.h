// Attention of single rows over the paged cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "lib/policy/cached_decoder.h"
#include "lib/policy/kv_cache.h"

namespace buttress {

// Puts keys and values [R, K, C] at the rows' places in `layer`.
void StoreRows(std::span<const CacheRow> rows, const at::Tensor& k_RKC, const at::Tensor& v_RKC, KvCache& cache, std::size_t layer);

// Each row over positions 0 to its own: q [R, H, C] -> [R, H*C].
at::Tensor CachedAttention(std::span<const CacheRow> rows, const at::Tensor& q_RHC, const KvCache& cache, std::size_t layer);

}  // namespace buttress
