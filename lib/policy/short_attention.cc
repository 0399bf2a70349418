#include "lib/policy/short_attention.h"

#include <torch/torch.h>

#include "lib/policy/cpu_rows.h"
#include "lib/policy/short_kernels.h"

namespace buttress {
namespace {

std::int64_t SequenceWork(const std::vector<std::int64_t>& offsets, const HeadShape& shape) {
  const std::int64_t sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  const std::int64_t mean = offsets.back() / std::max<std::int64_t>(1, sequences);
  return mean * mean * shape.H * shape.C;
}

template <class T>
ShortRows<T> RowsOf(const at::Tensor& qkv, const std::vector<std::int64_t>& offsets, std::size_t b, const HeadShape& shape) {
  return {Rows<T>(qkv, offsets[b]), offsets[b + 1] - offsets[b], qkv.stride(0), shape.H, shape.K, shape.C};
}

// `logsum` [N, H] may be undefined.
at::Tensor Attend(const std::vector<std::int64_t>& offsets, const at::Tensor& qkv, const HeadShape& shape, at::Tensor& logsum) {
  at::Tensor out = at::empty({qkv.size(0), shape.H * shape.C}, qkv.options());
  float* sums = logsum.defined() ? logsum.mutable_data_ptr<float>() : nullptr;
  ForRows(qkv, static_cast<std::int64_t>(offsets.size()) - 1, SequenceWork(offsets, shape),
          [&](auto tag, std::int64_t first, std::int64_t count) {
            using T = decltype(tag);
            for (std::int64_t i = first; i < first + count; ++i) {
              const auto b = static_cast<std::size_t>(i);
              AttendShort(RowsOf<T>(qkv, offsets, b, shape),
                          MutableRows<T>(out, offsets[b]),
                          sums == nullptr ? nullptr : sums + offsets[b] * shape.H);
            }
          });
  return out;
}

class ShortFunction : public torch::autograd::Function<ShortFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx,
                            const at::Tensor& qkv,
                            const std::vector<std::int64_t>& offsets,
                            const HeadShape& shape) {
    at::Tensor logsum = at::empty({qkv.size(0), shape.H}, qkv.options().dtype(at::kFloat));
    const at::Tensor out = Attend(offsets, qkv, shape, logsum);
    ctx->save_for_backward({qkv, out, logsum});
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["shape"] = std::vector<std::int64_t>{shape.H, shape.K, shape.C};
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const at::Tensor grad_out = grads[0].contiguous();
    const auto offsets = ctx->saved_data["offsets"].toIntVector();
    const auto sizes = ctx->saved_data["shape"].toIntVector();
    const HeadShape shape = {sizes[0], sizes[1], sizes[2]};
    at::Tensor grad = at::empty_like(qkv);
    ForRows(qkv, static_cast<std::int64_t>(offsets.size()) - 1, 3 * SequenceWork(offsets, shape),
            [&](auto tag, std::int64_t first, std::int64_t count) {
              using T = decltype(tag);
              for (std::int64_t i = first; i < first + count; ++i) {
                const auto b = static_cast<std::size_t>(i);
                AttendShortGrad(RowsOf<T>(qkv, offsets, b, shape),
                                Rows<T>(saved[1], offsets[b]),
                                saved[2].const_data_ptr<float>() + offsets[b] * shape.H,
                                Rows<T>(grad_out, offsets[b]),
                                MutableRows<T>(grad, offsets[b]));
              }
            });
    return {grad, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool UsesShortAttention(const PackedLayout& layout, const at::Tensor& qkv, const HeadShape& shape) {
  return HasRowKernels(qkv) && qkv.is_contiguous() && layout.longest <= kShortLength && shape.C <= kShortHead;
}

at::Tensor ShortAttention(const PackedLayout& layout, const at::Tensor& qkv, const HeadShape& shape) {
  if (at::GradMode::is_enabled()) return ShortFunction::apply(qkv, layout.offsets, shape);
  at::Tensor no_logsum;
  return Attend(layout.offsets, qkv, shape, no_logsum);
}

}  // namespace buttress
