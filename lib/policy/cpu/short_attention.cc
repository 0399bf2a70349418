#include "lib/policy/cpu/short_attention.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/cpu/short_kernels.h"

namespace buttress {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Converts packed sequences into the arguments of the kernels.
struct Sequences {
  std::vector<std::int64_t> offsets;  // [B+1]
  std::vector<std::int64_t> prefix;   // [B], -1 for none
  AttentionSpec shape;

  std::int64_t count() const { return static_cast<std::int64_t>(prefix.size()); }

  std::int64_t begin(std::int64_t b) const { return offsets[static_cast<std::size_t>(b)]; }

  std::int64_t length(std::int64_t b) const { return begin(b + 1) - begin(b); }

  std::int64_t prefix_of(std::int64_t b) const { return prefix[static_cast<std::size_t>(b)]; }

  std::int64_t work() const {
    const std::int64_t mean = offsets.back() / std::max<std::int64_t>(1, count());
    return mean * mean * shape.H * shape.C;
  }

  template <class T>
  ShortRows<T> Of(const at::Tensor& qkv, std::int64_t b) const {
    const std::int64_t p = prefix_of(b);
    const T* prefix_rows = Rows<T>(qkv, begin(p < 0 ? b : p));
    return {Rows<T>(qkv, begin(b)),
            length(b),
            prefix_rows,
            p < 0 ? 0 : length(p),
            qkv.stride(0),
            shape.H,
            shape.K,
            shape.C,
            static_cast<float>(shape.score_scale())};
  }
};

// Sets `logsum` [N, H] for the backward pass, unless it is undefined.
at::Tensor Attend(const Sequences& sequences, const at::Tensor& qkv, at::Tensor& logsum) {
  const AttentionSpec& shape = sequences.shape;
  at::Tensor out = at::empty({qkv.size(0), shape.H * shape.C}, qkv.options());
  float* sums = logsum.defined() ? logsum.mutable_data_ptr<float>() : nullptr;
  ForRows(qkv, sequences.count(), sequences.work(),
          [&](auto tag, std::int64_t first, std::int64_t count) {
            using T = decltype(tag);
            for (std::int64_t b = first; b < first + count; ++b) {
              const std::int64_t row = sequences.begin(b);
              AttendShort(sequences.Of<T>(qkv, b), MutableRows<T>(out, row),
                          sums == nullptr ? nullptr : sums + row * shape.H);
            }
          });
  return out;
}

struct Saved {
  at::Tensor qkv;
  at::Tensor out;
  at::Tensor logsum;
  at::Tensor grad_out;
};

// Computes the gradients of sequence `root` and its continuations, up to `end`. The continuations
// come first, because they add to the gradients of the keys and values of the root.
template <class T>
void FamilyGrad(const Sequences& sequences, const Saved& saved, std::int64_t root, std::int64_t end,
                at::Tensor& grad) {
  const AttentionSpec& shape = sequences.shape;
  std::vector<float> shared;
  if (end > root + 1)
    shared.resize(static_cast<std::size_t>(sequences.length(root) * 2 * shape.K * shape.C));
  float* sum = shared.empty() ? nullptr : shared.data();
  for (std::int64_t b = end - 1; b >= root; --b) {
    const std::int64_t row = sequences.begin(b);
    const ShortPrefixGrad prefix =
        b == root ? ShortPrefixGrad{nullptr, sum} : ShortPrefixGrad{sum, nullptr};
    AttendShortGrad(sequences.Of<T>(saved.qkv, b), Rows<T>(saved.out, row),
                    saved.logsum.const_data_ptr<float>() + row * shape.H,
                    Rows<T>(saved.grad_out, row), MutableRows<T>(grad, row), prefix);
  }
}

class ShortFunction : public torch::autograd::Function<ShortFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv,
                            const Sequences& sequences) {
    const AttentionSpec& shape = sequences.shape;
    at::Tensor logsum = at::empty({qkv.size(0), shape.H}, qkv.options().dtype(at::kFloat));
    const at::Tensor out = Attend(sequences, qkv, logsum);
    ctx->save_for_backward({qkv, out, logsum});
    ctx->saved_data["offsets"] = sequences.offsets;
    ctx->saved_data["prefix"] = sequences.prefix;
    ctx->saved_data["shape"] = std::vector<std::int64_t>{shape.H, shape.K, shape.C};
    ctx->saved_data["scale"] = shape.score_scale();
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto tensors = ctx->get_saved_variables();
    const Saved saved = {tensors[0], tensors[1], tensors[2], grads[0].contiguous()};
    const auto sizes = ctx->saved_data["shape"].toIntVector();
    const Sequences sequences = {
        ctx->saved_data["offsets"].toIntVector(),
        ctx->saved_data["prefix"].toIntVector(),
        {sizes[0], sizes[1], sizes[2], ctx->saved_data["scale"].toDouble()}};
    std::vector<std::int64_t> roots;
    for (std::int64_t b = 0; b < sequences.count(); ++b) {
      if (sequences.prefix_of(b) < 0) roots.push_back(b);
    }
    const std::int64_t families = static_cast<std::int64_t>(roots.size());
    roots.push_back(sequences.count());
    at::Tensor grad = at::empty_like(saved.qkv);
    const std::int64_t work =
        3 * sequences.work() * sequences.count() / std::max<std::int64_t>(1, families);
    ForRows(saved.qkv, families, work, [&](auto tag, std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i) {
        const auto f = static_cast<std::size_t>(i);
        FamilyGrad<decltype(tag)>(sequences, saved, roots[f], roots[f + 1], grad);
      }
    });
    return {grad, at::Tensor()};
  }
};

}  // namespace

bool UsesShortAttention(const PackedLayout& layout, const at::Tensor& qkv,
                        const AttentionSpec& shape) {
  return HasRowKernels(qkv) && qkv.is_contiguous() && layout.longest <= kShortLength &&
         shape.C <= kShortHead && !shape.windowed(layout.longest) && shape.score_cap == 0;
}

at::Tensor ShortAttention(const PackedLayout& layout, const at::Tensor& qkv,
                          const AttentionSpec& shape) {
  const Sequences sequences = {layout.offsets, layout.prefix, shape};
  if (at::GradMode::is_enabled()) return ShortFunction::apply(qkv, sequences);
  at::Tensor no_logsum;
  return Attend(sequences, qkv, no_logsum);
}

}  // namespace buttress
