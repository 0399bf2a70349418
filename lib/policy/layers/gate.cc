#include "lib/policy/layers/gate.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

// Operations for one value, most of them for the exponential.
constexpr std::int64_t kWork = 8;

at::Tensor Forward(const at::Tensor& gate_up, Activation activation) {
  const std::int64_t F = gate_up.size(1) / 2;
  at::Tensor out = at::empty({gate_up.size(0), F}, gate_up.options());
  ForRows(
      gate_up, gate_up.size(0), kWork * F, [&](auto tag, std::int64_t first, std::int64_t rows) {
        using T = decltype(tag);
        GateRows(
            GateArgs<T>{Rows<T>(gate_up, first), MutableRows<T>(out, first), rows, F, activation});
      });
  return out;
}

class GateFunction : public torch::autograd::Function<GateFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate_up,
                            Activation activation) {
    ctx->save_for_backward({gate_up});
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    return Forward(gate_up, activation);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const at::Tensor grad_out = grads[0].contiguous();
    const std::int64_t F = grad_out.size(1);
    at::Tensor grad = at::empty_like(gate_up);
    ForRows(gate_up, gate_up.size(0), 2 * kWork * F,
            [&](auto tag, std::int64_t first, std::int64_t rows) {
              using T = decltype(tag);
              GateGradRows(GateGradArgs<T>{Rows<T>(gate_up, first), Rows<T>(grad_out, first),
                                           MutableRows<T>(grad, first), rows, F, activation});
            });
    return {grad, at::Tensor()};
  }
};

}  // namespace

at::Tensor Gate(const at::Tensor& gate_up, Activation activation) {
  if (HasRowKernels(gate_up) && gate_up.is_contiguous()) {
    return at::GradMode::is_enabled() ? GateFunction::apply(gate_up, activation)
                                      : Forward(gate_up, activation);
  }
  const auto halves = gate_up.chunk(2, 1);
  return (activation == Activation::kSilu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh")) *
         halves[1];
}

}  // namespace buttress
