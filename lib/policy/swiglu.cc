#include "lib/policy/swiglu.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

// Operations for one value, most of them for the exponential.
constexpr std::int64_t kWork = 8;

at::Tensor GateRows(const at::Tensor& gate_up) {
  const std::int64_t F = gate_up.size(1) / 2;
  at::Tensor out = at::empty({gate_up.size(0), F}, gate_up.options());
  ForRows(gate_up, gate_up.size(0), kWork * F,
          [&](auto tag, std::int64_t first, std::int64_t rows) {
            using T = decltype(tag);
            SwiGluRows(Rows<T>(gate_up, first), MutableRows<T>(out, first), rows, F);
          });
  return out;
}

class GateFunction : public torch::autograd::Function<GateFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate_up) {
    ctx->save_for_backward({gate_up});
    return GateRows(gate_up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const at::Tensor grad_out = grads[0].contiguous();
    const std::int64_t F = grad_out.size(1);
    at::Tensor grad = at::empty_like(gate_up);
    ForRows(gate_up, gate_up.size(0), 2 * kWork * F,
            [&](auto tag, std::int64_t first, std::int64_t rows) {
              using T = decltype(tag);
              SwiGluGradRows(Rows<T>(gate_up, first), Rows<T>(grad_out, first),
                             MutableRows<T>(grad, first), rows, F);
            });
    return {grad};
  }
};

}  // namespace

at::Tensor SwiGlu(const at::Tensor& gate_up) {
  if (HasRowKernels(gate_up) && gate_up.is_contiguous()) {
    return at::GradMode::is_enabled() ? GateFunction::apply(gate_up) : GateRows(gate_up);
  }
  const auto halves = gate_up.chunk(2, 1);
  return at::silu(halves[0]) * halves[1];
}

}  // namespace buttress
