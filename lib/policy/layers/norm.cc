#include "lib/policy/layers/norm.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <tuple>

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

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Weight gradients are summed over this many rows at a time, whatever the number of threads.
constexpr std::int64_t kHeadGradRows = 256;

// The queries and keys of qkv with their weights.
struct Heads {
  std::int64_t H;
  std::int64_t K;
  std::int64_t C;
  float eps;
  float offset;

  // Normalizes row `r` of `from` into that of `to`; unless it is null, sets scale [H + K].
  template <class T>
  void NormRow(const T* from, const T* q_weight, const T* k_weight, T* to, float* scale) const {
    RmsNormRows(RmsNormArgs<T>{from, q_weight, to, scale, H, C, eps, offset});
    RmsNormRows(RmsNormArgs<T>{from + H * C, k_weight, to + H * C,
                               scale == nullptr ? nullptr : scale + H, K, C, eps, offset});
    if (to != from) std::copy_n(from + (H + K) * C, K * C, to + (H + K) * C);
  }
};

// `out` may be qkv. Sets `scale` [N, H + K] for the backward pass, unless it is undefined.
void NormAll(const at::Tensor& qkv, const Heads& heads, const at::Tensor& q_weight_C,
             const at::Tensor& k_weight_C, at::Tensor& out, at::Tensor& scale) {
  float* scales = scale.defined() ? scale.mutable_data_ptr<float>() : nullptr;
  const std::int64_t count = heads.H + heads.K;
  ForRows(
      qkv, qkv.size(0), 4 * count * heads.C, [&](auto tag, std::int64_t first, std::int64_t rows) {
        using T = decltype(tag);
        for (std::int64_t r = first; r < first + rows; ++r) {
          heads.NormRow(Rows<T>(qkv, r), Rows<T>(q_weight_C, 0), Rows<T>(k_weight_C, 0),
                        MutableRows<T>(out, r), scales == nullptr ? nullptr : scales + r * count);
        }
      });
}

class NormHeadsFunction : public torch::autograd::Function<NormHeadsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv,
                            const at::Tensor& q_weight_C, const at::Tensor& k_weight_C,
                            const Heads& heads) {
    at::Tensor scale = at::empty({qkv.size(0), heads.H + heads.K}, qkv.options().dtype(at::kFloat));
    at::Tensor out = at::empty_like(qkv);
    NormAll(qkv, heads, q_weight_C, k_weight_C, out, scale);
    ctx->save_for_backward({qkv, q_weight_C, k_weight_C, scale});
    ctx->saved_data["heads"] = std::vector<std::int64_t>{heads.H, heads.K, heads.C};
    ctx->saved_data["offset"] = static_cast<double>(heads.offset);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const auto sizes = ctx->saved_data["heads"].toIntVector();
    const std::int64_t H = sizes[0], K = sizes[1], C = sizes[2];
    const auto offset = static_cast<float>(ctx->saved_data["offset"].toDouble());
    const at::Tensor grad_out = grads[0].contiguous();
    const std::int64_t N = qkv.size(0);
    const std::int64_t parts = (N + kHeadGradRows - 1) / kHeadGradRows;
    at::Tensor grad = at::empty_like(qkv);
    at::Tensor grad_weights = at::zeros({parts, 2 * C}, saved[3].options());
    ForRows(qkv, parts, 8 * (H + K) * C * kHeadGradRows,
            [&](auto tag, std::int64_t first_part, std::int64_t count) {
              using T = decltype(tag);
              for (std::int64_t part = first_part; part < first_part + count; ++part) {
                float* weights = MutableRows<float>(grad_weights, part);
                for (std::int64_t r = part * kHeadGradRows;
                     r < std::min(N, (part + 1) * kHeadGradRows); ++r) {
                  const T* x = Rows<T>(qkv, r);
                  const T* dy = Rows<T>(grad_out, r);
                  T* dx = MutableRows<T>(grad, r);
                  const float* scale = Rows<float>(saved[3], r);
                  const std::int64_t k = H * C, v = (H + K) * C;
                  RmsNormGradRows(RmsNormGradArgs<T>{x, Rows<T>(saved[1], 0), scale, dy, dx,
                                                     weights, H, C, offset});
                  RmsNormGradRows(RmsNormGradArgs<T>{x + k, Rows<T>(saved[2], 0), scale + H, dy + k,
                                                     dx + k, weights + C, K, C, offset});
                  std::copy_n(dy + v, K * C, dx + v);
                }
              }
            });
    const auto sums = grad_weights.sum(0).to(saved[1].scalar_type()).chunk(2);
    return {grad, sums[0], sums[1], at::Tensor()};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, const NormSpec& norm) {
  if (HasRowKernels(x_ND) && x_ND.is_contiguous()) {
    if (at::GradMode::is_enabled()) return NormFunction::apply(x_ND, weight_D, norm);
    at::Tensor no_scale;
    return NormRows(x_ND, weight_D, norm, no_scale);
  }
  // The fused kernel of LibTorch for GPUs does not multiply by 1 + w.
  if (!norm.adds_one)
    return std::get<0>(at::_fused_rms_norm(x_ND, weight_D.sizes(), weight_D, norm.eps));
  const at::Tensor x = x_ND.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + norm.eps);
  return (x * scale * (weight_D.to(at::kFloat) + 1)).to(x_ND.scalar_type());
}

at::Tensor NormHeads(at::Tensor qkv, const AttentionSpec& spec, const at::Tensor& q_weight_C,
                     const at::Tensor& k_weight_C, const NormSpec& norm) {
  if (HasRowKernels(qkv) && qkv.is_contiguous()) {
    const Heads heads = {spec.H, spec.K, spec.C, static_cast<float>(norm.eps),
                         norm.adds_one ? 1.0f : 0.0f};
    if (at::GradMode::is_enabled())
      return NormHeadsFunction::apply(qkv, q_weight_C, k_weight_C, heads);
    at::Tensor no_scale;
    NormAll(qkv, heads, q_weight_C, k_weight_C, qkv, no_scale);
    return qkv;
  }
  const auto parts = qkv.split_with_sizes({spec.q_width(), spec.kv_width(), spec.kv_width()}, 1);
  const auto normed = [&](const at::Tensor& heads, const at::Tensor& weight_C) {
    return RmsNorm(heads.reshape({-1, spec.C}), weight_C, norm).view(heads.sizes());
  };
  return at::cat({normed(parts[0], q_weight_C), normed(parts[1], k_weight_C), parts[2]}, 1);
}

}  // namespace buttress
