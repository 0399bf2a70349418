#include "lib/policy/decode/cached_attention.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

template <class T>
PagedLayer<T> PagedLayerOf(const KvCache& cache, std::size_t layer) {
  const at::Tensor& keys = cache.keys(layer);
  return {static_cast<T*>(keys.data_ptr()), static_cast<T*>(cache.values(layer).data_ptr()),
          keys.size(1), keys.size(2)};
}

// The rows of one GatheredAttention; bounds the memory of its copies.
constexpr std::int64_t kGatherRows = 256;

// Copies the blocks of the rows into rectangles. Works on any device.
at::Tensor GatheredAttention(std::span<const CacheRow> rows, const at::Tensor& q_RHC,
                             const AttentionSpec& spec, const KvCache& cache, std::size_t layer) {
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  std::int64_t longest = 0;
  for (const CacheRow& row : rows) longest = std::max(longest, row.position + 1);
  const std::int64_t blocks = BlocksFor(longest);
  at::Tensor index = at::zeros({count, blocks}, at::TensorOptions(at::kLong));
  at::Tensor lengths = at::empty({count, 1}, at::TensorOptions(at::kLong));
  for (std::int64_t r = 0; r < count; ++r) {
    const CacheRow& row = rows[static_cast<std::size_t>(r)];
    std::copy_n(row.blocks, BlocksFor(row.position + 1),
                index.mutable_data_ptr<std::int64_t>() + r * blocks);
    lengths.mutable_data_ptr<std::int64_t>()[r] = row.position + 1;
  }
  const at::Device device = q_RHC.device();
  const at::Tensor flat = index.view(-1).to(device);
  const at::Tensor& keys = cache.keys(layer);
  const std::int64_t K = keys.size(1);
  const std::int64_t C = keys.size(2);
  const std::int64_t H = q_RHC.size(1);
  const std::int64_t T = blocks * kCacheBlock;
  const auto spread = [&](const at::Tensor& x_RKTC) {
    return x_RKTC.unsqueeze(2).expand({count, K, H / K, T, C}).reshape({count, H, T, C});
  };
  const at::Tensor k = keys.index_select(0, flat)
                           .view({count, blocks, K, C, kCacheBlock})
                           .permute({0, 2, 1, 4, 3})
                           .reshape({count, K, T, C});
  const at::Tensor v = cache.values(layer)
                           .index_select(0, flat)
                           .view({count, blocks, K, kCacheBlock, C})
                           .permute({0, 2, 1, 3, 4})
                           .reshape({count, K, T, C});
  const at::Tensor positions =
      at::arange(T, at::TensorOptions(at::kLong).device(device)).unsqueeze(0);
  const at::Tensor ends = lengths.to(device);
  at::Tensor mask = positions.lt(ends);
  if (spec.window > 0) mask = mask.logical_and(positions.ge(ends - spec.window));
  // Positions past the end of a sequence hold old values. They are zeroed, because their weight of
  // 0 times a NaN would be a NaN.
  const at::Tensor unused = mask.logical_not().view({count, 1, T, 1});
  return DenseAttention(q_RHC.unsqueeze(2), spread(k.masked_fill(unused, 0.0)),
                        spread(v.masked_fill(unused, 0.0)), mask.view({count, 1, 1, T}), spec)
      .reshape({count, H * C});
}

// Runs the CPU kernels on the blocks in place.
at::Tensor KernelAttention(std::span<const CacheRow> rows, const at::Tensor& qkv,
                           const AttentionSpec& shape, const KvCache& cache, std::size_t layer) {
  const std::int64_t count = qkv.size(0);
  at::Tensor out = at::empty({count, shape.H * shape.C}, qkv.options());
  std::int64_t positions = 0;
  for (const CacheRow& row : rows) positions += row.position + 1;
  const std::int64_t row_work = shape.H * shape.C * positions / std::max<std::int64_t>(1, count);
  const PagedScores scores = {shape.H, static_cast<float>(shape.score_scale()),
                              static_cast<float>(shape.score_cap)};
  ForRows(qkv, count, row_work, [&](auto tag, std::int64_t first, std::int64_t some) {
    using T = decltype(tag);
    const PagedLayer<T> paged = PagedLayerOf<T>(cache, layer);
    std::vector<float> scratch;
    for (std::int64_t r = first; r < first + some; ++r) {
      const CacheRow& row = rows[static_cast<std::size_t>(r)];
      const std::int64_t end = row.position + 1;
      const auto needed = static_cast<std::size_t>(AttendScratch(shape.H / shape.K, shape.C, end));
      if (scratch.size() < needed) scratch.resize(2 * needed);
      const std::int64_t begin = shape.windowed(end) ? end - shape.window : 0;
      AttendRow(paged, {row.blocks, begin, end}, scores, Rows<T>(qkv, r), MutableRows<T>(out, r),
                scratch.data());
    }
  });
  return out;
}

}  // namespace

void StoreRows(std::span<const CacheRow> rows, const at::Tensor& qkv, const AttentionSpec& shape,
               KvCache& cache, std::size_t layer) {
  const std::int64_t keys_begin = shape.q_width();
  const std::int64_t width = shape.kv_width();
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  if (HasRowKernels(qkv)) {
    ForRows(qkv, count, 2 * width, [&](auto tag, std::int64_t first, std::int64_t some) {
      using T = decltype(tag);
      const PagedLayer<T> paged = PagedLayerOf<T>(cache, layer);
      for (std::int64_t r = first; r < first + some; ++r) {
        const CacheRow& row = rows[static_cast<std::size_t>(r)];
        const T* keys = Rows<T>(qkv, r) + keys_begin;
        StoreRow(paged, row.blocks, row.position, keys, keys + width);
      }
    });
    return;
  }
  at::Tensor places = at::empty({2, count}, at::TensorOptions(at::kLong));
  for (std::int64_t r = 0; r < count; ++r) {
    const CacheRow& row = rows[static_cast<std::size_t>(r)];
    places.mutable_data_ptr<std::int64_t>()[r] = row.blocks[row.position / kCacheBlock];
    places.mutable_data_ptr<std::int64_t>()[count + r] = row.position % kCacheBlock;
  }
  const at::Tensor moved = places.to(qkv.device());
  at::Tensor keys = cache.keys(layer).permute({0, 3, 1, 2});      // [blocks, position, K, C]
  at::Tensor values = cache.values(layer).permute({0, 2, 1, 3});  // [blocks, position, K, C]
  const auto heads = [&](std::int64_t begin) {
    return qkv.narrow(1, begin, width).unflatten(1, {shape.K, shape.C});
  };
  keys.index_put_({moved[0], moved[1]}, heads(keys_begin));
  values.index_put_({moved[0], moved[1]}, heads(keys_begin + width));
}

at::Tensor CachedAttention(std::span<const CacheRow> rows, const at::Tensor& qkv,
                           const AttentionSpec& shape, const KvCache& cache, std::size_t layer) {
  if (HasRowKernels(qkv)) return KernelAttention(rows, qkv, shape, cache, layer);
  const at::Tensor q_RHC = qkv.narrow(1, 0, shape.H * shape.C).unflatten(1, {shape.H, shape.C});
  std::vector<at::Tensor> outs;
  for (std::int64_t first = 0; first < q_RHC.size(0); first += kGatherRows) {
    const std::int64_t count = std::min(kGatherRows, q_RHC.size(0) - first);
    outs.push_back(GatheredAttention(
        rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        q_RHC.narrow(0, first, count), shape, cache, layer));
  }
  return at::cat(outs);
}

}  // namespace buttress
