// Shapes: N rows, I inputs, O outputs of a matrix, r rank.
#include "lib/policy/adapters/adapted_products.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <vector>

#include "lib/policy/cpu/packed_linear.h"

namespace buttress {
namespace {

// The columns [first, first + O) of the outputs, or of their gradient.
at::Tensor Columns(const at::Tensor& outputs, std::int64_t first, const at::Tensor& b_Or) {
  return outputs.narrow(1, first, b_Or.size(0));
}

// The adapters of a joint product, each with columns of its own from firsts[i] on.
struct Joint {
  std::vector<std::int64_t> firsts;
  double scale;
  std::int64_t outs;
  bool row_wise;
};

// scale * (x A^T) B^T in float32, [N, outs].
at::Tensor Delta(const at::Tensor& x, at::TensorList a, at::TensorList b, const Joint& joint) {
  const at::Tensor x_NI = x.to(at::kFloat);
  const at::Tensor delta = at::zeros({x.size(0), joint.outs}, x_NI.options());
  for (std::size_t i = 0; i < joint.firsts.size(); ++i) {
    at::Tensor columns = Columns(delta, joint.firsts[i], b[i]);
    if (joint.row_wise && HasRowProduct(a[i]) && HasRowProduct(b[i])) {
      const at::Tensor inner_Nr = RowProduct(x_NI, a[i], {}, at::kFloat);
      columns.add_(RowProduct(inner_Nr, b[i], {}, at::kFloat), joint.scale);
    } else {
      columns.addmm_(at::mm(x_NI, a[i].t()), b[i].t(), 1, joint.scale);
    }
  }
  return delta;
}

// base + Delta.
class AdapterFunction : public torch::autograd::Function<AdapterFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base,
                            const at::Tensor& x, at::TensorList a, at::TensorList b,
                            const Joint& joint) {
    torch::autograd::variable_list saved = {x};
    saved.insert(saved.end(), a.begin(), a.end());
    saved.insert(saved.end(), b.begin(), b.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["firsts"] = joint.firsts;
    ctx->saved_data["scale"] = joint.scale;
    return Delta(x, a, b, joint).add_(base).to(base.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto firsts = ctx->saved_data["firsts"].toIntVector();
    const double scale = ctx->saved_data["scale"].toDouble();
    const at::Tensor x_NI = saved[0].to(at::kFloat);
    const at::Tensor grad_x = at::zeros_like(x_NI);
    torch::autograd::variable_list grad_a, grad_b;
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      const at::Tensor &a = saved[1 + i], &b = saved[1 + firsts.size() + i];
      const at::Tensor grad_NO = Columns(grads[0], firsts[i], b).to(at::kFloat) * scale;
      const at::Tensor grad_inner_Nr = at::mm(grad_NO, b);
      grad_a.push_back(at::mm(grad_inner_Nr.t(), x_NI));
      grad_b.push_back(at::mm(grad_NO.t(), at::mm(x_NI, a.t())));
      grad_x.addmm_(grad_inner_Nr, a);
    }
    torch::autograd::variable_list result = {grads[0], grad_x.to(saved[0].scalar_type())};
    result.insert(result.end(), grad_a.begin(), grad_a.end());
    result.insert(result.end(), grad_b.begin(), grad_b.end());
    result.emplace_back();  // of `joint`
    return result;
  }
};

}  // namespace

at::Tensor AdaptedProducts::Adapted(const at::Tensor& base, const at::Tensor& x,
                                    std::initializer_list<Part> parts) const {
  std::vector<at::Tensor> a, b;
  Joint joint = {{}, scale_, base.size(1), row_wise_};
  for (const Part& part : parts) {
    if (!part.adapter.a_rI.defined()) continue;
    a.push_back(part.adapter.a_rI);
    b.push_back(part.adapter.b_Or);
    const std::int64_t n = part.widths_before_end;
    joint.firsts.push_back(n == 0 ? 0 : base.size(1) - n * b.back().size(0));
  }
  if (a.empty()) return base;
  if (at::GradMode::is_enabled())
    return AdapterFunction::apply(base, x, at::TensorList(a), at::TensorList(b), joint);
  return Delta(x, a, b, joint).add_(base).to(base.scalar_type());
}

at::Tensor AdaptedProducts::Qkv(const at::Tensor& x_ND) const {
  return Adapted(base_.Qkv(x_ND), x_ND, {{adapters_.q, 0}, {adapters_.k, 2}, {adapters_.v, 1}});
}

at::Tensor AdaptedProducts::Out(const at::Tensor& attended) const {
  return Adapted(base_.Out(attended), attended, {{adapters_.o, 0}});
}

at::Tensor AdaptedProducts::Router(const at::Tensor& x_ND) const { return base_.Router(x_ND); }

at::Tensor AdaptedProducts::GateUp(std::size_t mlp, const at::Tensor& x_ND) const {
  return Adapted(base_.GateUp(mlp, x_ND), x_ND, {{adapters_.gate, 0}, {adapters_.up, 1}});
}

at::Tensor AdaptedProducts::Down(std::size_t mlp, const at::Tensor& gated_NF) const {
  return Adapted(base_.Down(mlp, gated_NF), gated_NF, {{adapters_.down, 0}});
}

}  // namespace buttress
