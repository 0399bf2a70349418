#include "lib/policy/layers/rope.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <numbers>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

struct Rotation {
  std::int64_t heads;
  at::Tensor positions_N;
  at::Tensor cos_PC;
  at::Tensor sin_PC;
};

void RotateRows(at::Tensor& x, const Rotation& rotation, float direction) {
  const std::int64_t C = rotation.cos_PC.size(1);
  ForRows(
      x, x.size(0), 2 * rotation.heads * C, [&](auto tag, std::int64_t first, std::int64_t rows) {
        using T = decltype(tag);
        RopeRows(
            RopeArgs<T>{.x = MutableRows<T>(x, first),
                        .positions = rotation.positions_N.const_data_ptr<std::int64_t>() + first,
                        .cos = rotation.cos_PC.const_data_ptr<float>(),
                        .sin = rotation.sin_PC.const_data_ptr<float>(),
                        .direction = direction,
                        .rows = rows,
                        .heads = rotation.heads,
                        .C = C,
                        .stride = x.stride(0)});
      });
}

// Works in place, because the linear layer that computed x does not need its values again. The
// gradient is rotated in the opposite direction.
class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor x, std::int64_t heads,
                            const at::Tensor& positions_N, const at::Tensor& cos_PC,
                            const at::Tensor& sin_PC) {
    RotateRows(x, {heads, positions_N, cos_PC, sin_PC}, 1.0f);
    ctx->mark_dirty({x});
    ctx->save_for_backward({positions_N, cos_PC, sin_PC});
    ctx->saved_data["heads"] = heads;
    return x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    at::Tensor grad = grads[0].clone(at::MemoryFormat::Contiguous);
    RotateRows(grad, {ctx->saved_data["heads"].toInt(), saved[0], saved[1], saved[2]}, -1.0f);
    return {grad, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Returns the angles of one position [C/2], computed in float32 as transformers does.
at::Tensor Frequencies(std::int64_t head_dim, const RopeSpec& spec) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::TensorOptions(at::kLong)).to(at::kFloat) /
      static_cast<double>(head_dim);
  const at::Tensor plain = 1.0 / at::pow(spec.theta, exponents);
  const at::Tensor slow = plain / spec.factor;
  if (spec.original_positions == 0) return spec.factor == 1 ? plain : slow;
  const auto positions = static_cast<double>(spec.original_positions);
  const at::Tensor wavelengths = 2 * std::numbers::pi / plain;
  const at::Tensor smooth = (positions / wavelengths - spec.low_freq_factor) /
                            (spec.high_freq_factor - spec.low_freq_factor);
  const at::Tensor between = (1 - smooth) * plain / spec.factor + smooth * plain;
  return at::where(wavelengths > positions / spec.low_freq_factor, slow,
                   at::where(wavelengths < positions / spec.high_freq_factor, plain, between));
}

}  // namespace

RopeTable::RopeTable(std::int64_t head_dim, const RopeSpec& spec, at::Device device)
    : head_dim_(head_dim), spec_(spec), device_(device) {}

void RopeTable::Grow(std::int64_t end) {
  if (cos_PC_.defined() && cos_PC_.size(0) >= end) return;
  const c10::InferenceMode training_may_use_it(false);
  const at::NoGradGuard no_grad;
  const std::int64_t size = std::max<std::int64_t>(end + end / 2, 256);
  const auto options = at::TensorOptions(at::kFloat).device(device_);
  const at::Tensor angles =
      at::outer(at::arange(size, options), Frequencies(head_dim_, spec_).to(device_));
  const at::Tensor sin = angles.sin();
  cos_PC_ = at::cat({angles.cos(), angles.cos()}, 1);
  sin_PC_ = at::cat({-sin, sin}, 1);
}

at::Tensor RopeTable::Rotate(at::Tensor x, std::int64_t heads, const at::Tensor& positions_N,
                             std::int64_t end) {
  Grow(end);
  if (HasRowKernels(x) && x.stride(1) == 1) {
    if (at::GradMode::is_enabled())
      return RotateFunction::apply(x, heads, positions_N, cos_PC_, sin_PC_);
    RotateRows(x, {heads, positions_N, cos_PC_, sin_PC_}, 1.0f);
    return x;
  }
  const std::int64_t rotated = heads * head_dim_;
  const auto parts = x.split_with_sizes({rotated, x.size(1) - rotated}, 1);
  const at::Tensor cos = cos_PC_.index_select(0, positions_N).unsqueeze(1);
  const at::Tensor sin = sin_PC_.index_select(0, positions_N).unsqueeze(1);
  const at::Tensor turned = parts[0].unflatten(1, {heads, head_dim_}).to(at::kFloat);
  const auto halves = turned.chunk(2, -1);
  const at::Tensor out = turned * cos + at::cat({halves[1], halves[0]}, -1) * sin;
  return at::cat({out.to(x.scalar_type()).flatten(1), parts[1]}, 1);
}

}  // namespace buttress
