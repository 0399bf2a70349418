// Attention of single rows over the paged cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "lib/policy/attention.h"
#include "lib/policy/cached_decoder.h"
#include "lib/policy/kv_cache.h"

namespace buttress {

// qkv [R, (H + 2K) * C] as in attention.h: puts keys and values at the rows' places in `layer`.
void StoreRows(std::span<const CacheRow> rows, const at::Tensor& qkv, const HeadShape& shape,
               KvCache& cache, std::size_t layer);

// The queries of each row over positions 0 to its own -> [R, H * C].
at::Tensor CachedAttention(std::span<const CacheRow> rows, const at::Tensor& qkv,
                           const HeadShape& shape, const KvCache& cache, std::size_t layer);

}  // namespace buttress
