// Shapes: N rows, k chosen experts of a row, A = N * k pairs of a row and an expert, D width.
#include "lib/policy/layers/mlp.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <utility>
#include <vector>

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

// Selects rows, each of which occurs equally often among `rows_A`: place_A holds the places of the
// first row, of the second, ... Sums the gradient of a row in float32 and in a fixed order.
class SelectRows : public torch::autograd::Function<SelectRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x_ND,
                            const at::Tensor& rows_A, const at::Tensor& place_A) {
    ctx->save_for_backward({place_A});
    ctx->saved_data["rows"] = x_ND.size(0);
    return x_ND.index_select(0, rows_A);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor copies = grads[0].index_select(0, ctx->get_saved_variables()[0]);
    const at::Tensor sums = copies.view({ctx->saved_data["rows"].toInt(), -1, copies.size(1)})
                                .sum(1, /*keepdim=*/false, at::kFloat);
    return {sums.to(copies.scalar_type()), at::Tensor(), at::Tensor()};
  }
};

std::vector<std::int64_t> RowsOfExperts(const at::Tensor& expert_A, std::int64_t experts) {
  const at::Tensor counts = at::bincount(expert_A, {}, experts).to(at::kCPU);
  const std::int64_t* first = counts.const_data_ptr<std::int64_t>();
  return {first, first + experts};
}

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

at::Tensor MixExperts(const ExpertSpec& spec, const at::Tensor& router_NE, const at::Tensor& x_ND,
                      const ExpertMlp& mlp) {
  auto [weights_Nk, expert_Nk] = at::topk(at::softmax(router_NE, -1), spec.top_k, -1);
  if (spec.normalize) weights_Nk = weights_Nk / weights_Nk.sum(-1, /*keepdim=*/true);
  // Pair n * k + j is row n with its j-th expert. `order` sorts the pairs by expert, and pair p is
  // at place_A[p] of that order.
  const at::Tensor order_A = at::argsort(expert_Nk.flatten(), /*stable=*/true);
  const at::Tensor place_A = at::argsort(order_A, /*stable=*/true);
  const auto row_A = order_A.div(spec.top_k, "floor");
  const std::vector<std::int64_t> counts = RowsOfExperts(expert_Nk.flatten(), spec.count);
  const auto parts = SelectRows::apply(x_ND, row_A, place_A).split_with_sizes(counts);
  std::vector<at::Tensor> outputs;
  for (std::size_t e = 0; e < parts.size(); ++e)
    if (counts[e] > 0 || at::GradMode::is_enabled()) outputs.push_back(mlp(e, parts[e]));
  const at::Tensor output_NkD =
      SelectRows::apply(at::cat(outputs), place_A, order_A).view({-1, spec.top_k, x_ND.size(1)});
  return (output_NkD * weights_Nk.unsqueeze(-1)).sum(1).to(x_ND.scalar_type());
}

}  // namespace buttress
