#include "lib/policy/layers/norm.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

// Weight gradients are summed over this many rows at a time. The number is fixed, so that the sum
// does not depend on the number of threads.
constexpr std::int64_t kGradRows = 512;

// Sets `scale_N` to 1 / sqrt(mean(x^2) + eps), unless it is undefined.
at::Tensor NormRows(const at::Tensor& x_ND, const at::Tensor& weight_D, const NormSpec& norm,
                    at::Tensor& scale_N) {
  at::Tensor out = at::empty(x_ND.sizes(), x_ND.options());
  const std::int64_t D = x_ND.size(1);
  float* scale = scale_N.defined() ? scale_N.mutable_data_ptr<float>() : nullptr;
  ForRows(x_ND, x_ND.size(0), D, [&](auto tag, std::int64_t first, std::int64_t rows) {
    using T = decltype(tag);
    RmsNormRows(RmsNormArgs<T>{.x = Rows<T>(x_ND, first),
                               .weight = Rows<T>(weight_D, 0),
                               .out = MutableRows<T>(out, first),
                               .scale = scale == nullptr ? nullptr : scale + first,
                               .rows = rows,
                               .D = D,
                               .eps = static_cast<float>(norm.eps),
                               .offset = norm.adds_one ? 1.0f : 0.0f});
  });
  return out;
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x_ND,
                            const at::Tensor& weight_D, const NormSpec& norm) {
    at::Tensor scale_N = at::empty({x_ND.size(0)}, x_ND.options().dtype(at::kFloat));
    const at::Tensor out = NormRows(x_ND, weight_D, norm, scale_N);
    ctx->save_for_backward({x_ND, weight_D, scale_N});
    ctx->saved_data["adds_one"] = norm.adds_one;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x_ND = saved[0];
    const at::Tensor& weight_D = saved[1];
    const float offset = ctx->saved_data["adds_one"].toBool() ? 1.0f : 0.0f;
    const at::Tensor grad_out = grads[0].contiguous();
    const std::int64_t N = x_ND.size(0);
    const std::int64_t D = x_ND.size(1);
    const std::int64_t parts = (N + kGradRows - 1) / kGradRows;
    at::Tensor grad_x = at::empty_like(x_ND);
    at::Tensor grad_weight = at::zeros({parts, D}, saved[2].options());
    ForRows(
        x_ND, parts, 4 * D * kGradRows, [&](auto tag, std::int64_t first_part, std::int64_t count) {
          using T = decltype(tag);
          for (std::int64_t part = first_part; part < first_part + count; ++part) {
            const std::int64_t first = part * kGradRows;
            RmsNormGradRows(RmsNormGradArgs<T>{.x = Rows<T>(x_ND, first),
                                               .weight = Rows<T>(weight_D, 0),
                                               .scale = Rows<float>(saved[2], first),
                                               .grad_out = Rows<T>(grad_out, first),
                                               .grad_x = MutableRows<T>(grad_x, first),
                                               .grad_weight = MutableRows<float>(grad_weight, part),
                                               .rows = std::min(kGradRows, N - first),
                                               .D = D,
                                               .offset = offset});
          }
        });
    return {grad_x, grad_weight.sum(0).to(weight_D.scalar_type()), at::Tensor()};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, const NormSpec& norm) {
  if (HasRowKernels(x_ND) && x_ND.is_contiguous()) {
    if (at::GradMode::is_enabled()) return NormFunction::apply(x_ND, weight_D, norm);
    at::Tensor no_scale;
    return NormRows(x_ND, weight_D, norm, no_scale);
  }
  const at::Tensor x = x_ND.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + norm.eps);
  if (norm.adds_one) return (x * scale * (weight_D.to(at::kFloat) + 1)).to(x_ND.scalar_type());
  return weight_D * (x * scale).to(x_ND.scalar_type());
}

}  // namespace buttress
