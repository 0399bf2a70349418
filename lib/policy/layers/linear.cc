#include "lib/policy/layers/linear.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/cpu/packed_linear.h"

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
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   bool row_wise) {
  if (row_wise && HasRowProduct(weight)) return RowProduct(x, weight, bias, x.scalar_type());
  if (!HasRowKernels(x) || x.scalar_type() != at::kFloat) return at::linear(x, weight, bias);
  const at::Tensor transposed = weight.t().contiguous();
  return bias.defined() ? at::addmm(bias, x, transposed) : at::mm(x, transposed);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            at::TensorList weights, at::TensorList biases, bool row_wise) {
    const at::Tensor weight = Joined(weights.vec());
    const at::Tensor bias = biases.empty() ? at::Tensor() : Joined(biases.vec());
    std::vector<std::int64_t> outs;
    for (const at::Tensor& part : weights) outs.push_back(part.size(0));
    // Frozen weights need no gradient, for which the input would be kept.
    const bool trained = weights[0].requires_grad();
    ctx->save_for_backward({trained ? x : at::Tensor(), weight});
    ctx->saved_data["outs"] = outs;
    ctx->saved_data["biased"] = !biases.empty();
    return Product(x, weight, bias, row_wise);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    const auto outs = ctx->saved_data["outs"].toIntVector();
    torch::autograd::variable_list result = {at::mm(grad, saved[1])};
    if (!saved[0].defined()) {
      result.resize(2 + outs.size() * (ctx->saved_data["biased"].toBool() ? 2 : 1));
      return result;
    }
    const auto weight_grads = at::mm(grad.t(), saved[0]).split_with_sizes(outs);
    result.insert(result.end(), weight_grads.begin(), weight_grads.end());
    if (ctx->saved_data["biased"].toBool()) {
      const auto bias_grads = grad.sum(0).split_with_sizes(outs);
      result.insert(result.end(), bias_grads.begin(), bias_grads.end());
    }
    result.emplace_back();  // of row_wise
    return result;
  }
};

// The matrices of all groups, [G, outs, in], as a view.
at::Tensor Stacked(at::TensorList weights, std::size_t groups) {
  const std::size_t each = weights.size() / groups;
  const at::Tensor first = Joined(weights.slice(0, each).vec());
  const std::int64_t distance =
      groups == 1 ? first.numel() : weights[each].storage_offset() - first.storage_offset();
  for (std::size_t i = each; i < weights.size(); ++i) {
    TORCH_CHECK(weights[i].is_alias_of(first) &&
                    weights[i].storage_offset() - weights[i - each].storage_offset() == distance,
                "the weights of groups must lie at equal distances");
  }
  const std::int64_t width = first.size(1);
  return first.as_strided({static_cast<std::int64_t>(groups), first.size(0), width},
                          {distance, width, 1});
}

class GroupedLinearFunction : public torch::autograd::Function<GroupedLinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& ends_G, at::TensorList weights) {
    const at::Tensor stacked = Stacked(weights, static_cast<std::size_t>(ends_G.size(0)));
    std::vector<std::int64_t> outs;
    for (const at::Tensor& part : weights) outs.push_back(part.size(0));
    const bool trained = weights[0].requires_grad();
    ctx->save_for_backward({trained ? x : at::Tensor(), stacked, ends_G});
    ctx->saved_data["outs"] = outs;
    return at::_grouped_mm(x, stacked.transpose(1, 2), ends_G);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    const auto outs = ctx->saved_data["outs"].toIntVector();
    torch::autograd::variable_list result = {at::_grouped_mm(grad, saved[1], saved[2]),
                                             at::Tensor()};
    if (!saved[0].defined()) {
      result.resize(2 + outs.size());
      return result;
    }
    // The gradients of all matrices of all groups, one below the other. The kernel of GPUs writes
    // nothing for a group without rows.
    const at::Tensor& ends = saved[2];
    const at::Tensor empty_G = at::diff(ends, 1, 0, at::zeros({1}, ends.options())) == 0;
    const at::Tensor rows = at::_grouped_mm(grad.t(), saved[0], ends)
                                .masked_fill_(empty_G.view({-1, 1, 1}), 0)
                                .flatten(0, 1);
    const auto weight_grads = rows.split_with_sizes(outs);
    result.insert(result.end(), weight_grads.begin(), weight_grads.end());
    return result;
  }
};

}  // namespace

at::Tensor GroupedLinear(const at::Tensor& x, const at::Tensor& ends_G,
                         const std::vector<std::vector<at::Tensor>>& weights) {
  std::vector<at::Tensor> all;
  for (const std::vector<at::Tensor>& group : weights)
    all.insert(all.end(), group.begin(), group.end());
  if (at::GradMode::is_enabled())
    return GroupedLinearFunction::apply(x, ends_G, at::TensorList(all));
  return at::_grouped_mm(x, Stacked(all, weights.size()).transpose(1, 2), ends_G);
}

at::Tensor Joined(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  if (!Adjacent(parts)) return at::cat(parts);
  auto sizes = parts.front().sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& part : parts) sizes[0] += part.size(0);
  return parts.front().as_strided(sizes, parts.front().strides());
}

at::Tensor Linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  const std::vector<at::Tensor>& biases, bool row_wise) {
  if (at::GradMode::is_enabled())
    return LinearFunction::apply(x, at::TensorList(weights), at::TensorList(biases), row_wise);
  return Product(x, Joined(weights), biases.empty() ? at::Tensor() : Joined(biases), row_wise);
}

}  // namespace buttress
