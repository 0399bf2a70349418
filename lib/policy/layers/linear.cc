#include "lib/policy/layers/linear.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

// Returns whether each part lies behind the one before it in the same memory.
bool Adjacent(const std::vector<at::Tensor>& parts) {
  const char* next = static_cast<const char*>(parts.front().const_data_ptr());
  for (const at::Tensor& part : parts) {
    if (!part.is_contiguous() || !part.is_alias_of(parts.front()) || part.const_data_ptr() != next)
      return false;
    next += part.nbytes();
  }
  return true;
}

// MKL multiplies with a transposed weight 1.2 times as fast; the copy costs as much as a few rows.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!HasRowKernels(x) || x.scalar_type() != at::kFloat) return at::linear(x, weight, bias);
  const at::Tensor transposed = weight.t().contiguous();
  return bias.defined() ? at::addmm(bias, x, transposed) : at::mm(x, transposed);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            at::TensorList weights, at::TensorList biases) {
    const at::Tensor weight = Joined(weights.vec());
    const at::Tensor bias = biases.empty() ? at::Tensor() : Joined(biases.vec());
    std::vector<std::int64_t> outs;
    for (const at::Tensor& part : weights) outs.push_back(part.size(0));
    // Frozen weights need no gradient, for which the input would be kept.
    const bool trained = weights[0].requires_grad();
    ctx->save_for_backward({trained ? x : at::Tensor(), weight});
    ctx->saved_data["outs"] = outs;
    ctx->saved_data["biased"] = !biases.empty();
    return Product(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    const auto outs = ctx->saved_data["outs"].toIntVector();
    torch::autograd::variable_list result = {at::mm(grad, saved[1])};
    if (!saved[0].defined()) {
      result.resize(1 + outs.size() * (ctx->saved_data["biased"].toBool() ? 2 : 1));
      return result;
    }
    const auto weight_grads = at::mm(grad.t(), saved[0]).split_with_sizes(outs);
    result.insert(result.end(), weight_grads.begin(), weight_grads.end());
    if (ctx->saved_data["biased"].toBool()) {
      const auto bias_grads = grad.sum(0).split_with_sizes(outs);
      result.insert(result.end(), bias_grads.begin(), bias_grads.end());
    }
    return result;
  }
};

}  // namespace

at::Tensor Joined(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  if (!Adjacent(parts)) return at::cat(parts);
  auto sizes = parts.front().sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& part : parts) sizes[0] += part.size(0);
  return parts.front().as_strided(sizes, parts.front().strides());
}

at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases) {
  if (at::GradMode::is_enabled())
    return LinearFunction::apply(x, at::TensorList(weights), at::TensorList(biases));
  return Product(x, Joined(weights), biases.empty() ? at::Tensor() : Joined(biases));
}

}  // namespace buttress
