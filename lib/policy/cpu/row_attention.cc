#include "lib/policy/cpu/row_attention.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/cpu/paged_kernels.h"
#include "lib/policy/layers/attention.h"

namespace buttress {
namespace {

// The keys and values of one layer in the blocks of a cache. A continuation shares the full blocks
// of its prefix, and has the positions of the last one again.
class LayerCache {
 public:
  LayerCache(const PackedLayout& layout, const at::Tensor& qkv, const AttentionSpec& spec)
      : layout_(layout), spec_(spec), blocks_(static_cast<std::size_t>(layout.sequences())) {
    std::int32_t count = 0;
    for (std::int64_t b = 0; b < layout.sequences(); ++b) {
      std::vector<std::int32_t>& blocks = blocks_[static_cast<std::size_t>(b)];
      if (PrefixOf(b) >= 0) {
        const std::vector<std::int32_t>& shared = blocks_[static_cast<std::size_t>(PrefixOf(b))];
        blocks.assign(shared.begin(), shared.begin() + PrefixLength(b) / kCacheBlock);
      }
      const std::int64_t needed =
          (PrefixLength(b) + layout.length(b) + kCacheBlock - 1) / kCacheBlock;
      while (std::ssize(blocks) < needed) blocks.push_back(count++);
    }
    const std::vector<std::int64_t> size = {count, spec.K, spec.C, kCacheBlock};
    keys_ = at::empty(size, qkv.options());
    values_ = at::empty(size, qkv.options());
  }

  // Stores the rows of sequence `b`, and what it shares of its prefix in a block of its own.
  template <class T>
  void Store(std::int64_t b, const at::Tensor& qkv) {
    const std::int64_t before = PrefixLength(b);
    for (std::int64_t p = before / kCacheBlock * kCacheBlock; p < before; ++p)
      StoreAt<T>(b, p, Rows<T>(qkv, Begin(PrefixOf(b)) + p));
    for (std::int64_t t = 0; t < layout_.length(b); ++t)
      StoreAt<T>(b, before + t, Rows<T>(qkv, Begin(b) + t));
  }

  // Attends with the rows of sequence `b`.
  template <class T>
  void Attend(std::int64_t b, const at::Tensor& qkv, at::Tensor& out) {
    const PagedScores scores = {spec_.H, static_cast<float>(spec_.score_scale()),
                                static_cast<float>(spec_.score_cap)};
    const std::int64_t before = PrefixLength(b);
    const std::int64_t last = before + layout_.length(b);
    std::vector<float> scratch(
        static_cast<std::size_t>(AttendScratch(spec_.H / spec_.K, spec_.C, last)));
    for (std::int64_t t = 0; t < layout_.length(b); ++t) {
      const std::int64_t end = before + t + 1;
      const PagedRow row = {BlocksOf(b), spec_.windowed(end) ? end - spec_.window : 0, end};
      AttendRow(Layer<T>(), row, scores, Rows<T>(qkv, Begin(b) + t),
                MutableRows<T>(out, Begin(b) + t), scratch.data());
    }
  }

 private:
  std::int64_t Begin(std::int64_t b) const { return layout_.offsets[static_cast<std::size_t>(b)]; }

  std::int64_t PrefixOf(std::int64_t b) const {
    return layout_.prefix[static_cast<std::size_t>(b)];
  }

  std::int64_t PrefixLength(std::int64_t b) const {
    return PrefixOf(b) < 0 ? 0 : layout_.length(PrefixOf(b));
  }

  const std::int32_t* BlocksOf(std::int64_t b) const {
    return blocks_[static_cast<std::size_t>(b)].data();
  }

  template <class T>
  PagedLayer<T> Layer() {
    return {static_cast<T*>(keys_.mutable_data_ptr()), static_cast<T*>(values_.mutable_data_ptr()),
            spec_.K, spec_.C};
  }

  template <class T>
  void StoreAt(std::int64_t b, std::int64_t position, const T* row) {
    const T* keys = row + spec_.q_width();
    StoreRow(Layer<T>(), BlocksOf(b), position, keys, keys + spec_.kv_width());
  }

  const PackedLayout& layout_;
  const AttentionSpec& spec_;
  std::vector<std::vector<std::int32_t>> blocks_;  // by sequence
  at::Tensor keys_, values_;                       // as in PagedLayer
};

// REQUIRES: HasRowKernels(qkv), contiguous.
at::Tensor Attend(const PackedLayout& layout, const at::Tensor& qkv, const AttentionSpec& spec) {
  LayerCache cache(layout, qkv, spec);
  at::Tensor out = at::empty({qkv.size(0), spec.q_width()}, qkv.options());
  const std::int64_t count = layout.sequences();
  const std::int64_t rows = qkv.size(0) / std::max<std::int64_t>(1, count);
  ForRows(qkv, count, 2 * rows * spec.kv_width(),
          [&](auto tag, std::int64_t first, std::int64_t some) {
            for (std::int64_t b = first; b < first + some; ++b) cache.Store<decltype(tag)>(b, qkv);
          });
  ForRows(qkv, count, rows * layout.longest * spec.q_width(),
          [&](auto tag, std::int64_t first, std::int64_t some) {
            for (std::int64_t b = first; b < first + some; ++b)
              cache.Attend<decltype(tag)>(b, qkv, out);
          });
  return out;
}

// Returns `value`, with the gradient of `source`.
class ValueFunction : public torch::autograd::Function<ValueFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* /*ctx*/, const at::Tensor& /*source*/,
                            const at::Tensor& value) {
    return value.view_as(value);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*ctx*/,
                                                 torch::autograd::variable_list grads) {
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor RowAttention(const PackedLayout& layout, const at::Tensor& qkv,
                        const AttentionSpec& spec) {
  if (!HasRowKernels(qkv)) return CausalAttention(layout, qkv, spec);
  if (!at::GradMode::is_enabled()) return Attend(layout, qkv.contiguous(), spec);
  at::Tensor value;
  {
    const at::NoGradGuard no_grad;
    value = Attend(layout, qkv.contiguous(), spec);
  }
  return ValueFunction::apply(CausalAttention(layout, qkv, spec), value);
}

}  // namespace buttress
