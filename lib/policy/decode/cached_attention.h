// Attention of single rows over the paged key-value cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "lib/policy/decode/cached_decoder.h"
#include "lib/policy/decode/kv_cache.h"
#include "lib/policy/layers/attention.h"

namespace buttress {

// Stores the keys and values of qkv [R, (H + 2K) * C], as in attention.h, at the positions of the
// rows in layer `layer` of the cache.
void StoreRows(std::span<const CacheRow> rows, const at::Tensor& qkv, const AttentionSpec& shape,
               KvCache& cache, std::size_t layer);

// Lets the queries of each row attend to the positions up to its own. Returns [R, H * C].
at::Tensor CachedAttention(std::span<const CacheRow> rows, const at::Tensor& qkv,
                           const AttentionSpec& shape, const KvCache& cache, std::size_t layer);

}  // namespace buttress
