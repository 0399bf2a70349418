// Shapes: M rows, D width, V vocabulary, c rows of a chunk.
//
// With l = logits / temperature, p = softmax(l), H = -sum p log p (capped logits, if the model caps
// them, whose slope CapSlope has):
//   d logp[t] / d l = onehot(t) - p          d H / d l = -p * (log p + H)
#include "lib/policy/logprobs.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>

#include "lib/policy/head.h"

namespace buttress {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns log softmax(cap(hidden_cD head^T) / temperature), [c, V], in float32.
at::Tensor LogSoftmaxOf(const at::Tensor& hidden_cD, const at::Tensor& head_VD, double cap,
                        double temperature) {
  at::Tensor logits = CapLogits(HeadLogits(hidden_cD, head_VD), cap);
  if (temperature != 1.0) logits = logits.div_(temperature);
  return at::log_softmax(logits, -1);
}

at::Tensor EntropyOf(const at::Tensor& logp_cV) { return (logp_cV.exp() * logp_cV).sum(-1).neg_(); }

// Saves its inputs for the backward pass. If all rows fit into one chunk, saves the log-probs of
// the chunk too, which the backward pass then need not recompute.
class ChunkedFunction : public torch::autograd::Function<ChunkedFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden_MD,
                               const at::Tensor& head_VD, const at::Tensor& targets_M, double cap,
                               double temperature, std::int64_t chunk_rows, bool want_entropy) {
    const std::int64_t rows = hidden_MD.size(0);
    const auto options = hidden_MD.options().dtype(at::kFloat);
    at::Tensor logprobs = at::empty({rows}, options);
    at::Tensor entropy = want_entropy ? at::empty({rows}, options) : at::Tensor();
    at::Tensor kept;
    for (std::int64_t first = 0; first < rows; first += chunk_rows) {
      const std::int64_t count = std::min(chunk_rows, rows - first);
      const at::Tensor logp =
          LogSoftmaxOf(hidden_MD.narrow(0, first, count), head_VD, cap, temperature);
      const at::Tensor targets = targets_M.narrow(0, first, count).unsqueeze(1);
      logprobs.narrow(0, first, count).copy_(logp.gather(1, targets).squeeze(1));
      if (want_entropy) entropy.narrow(0, first, count).copy_(EntropyOf(logp));
      if (count == rows) kept = logp;
    }
    ctx->save_for_backward({hidden_MD, head_VD, targets_M, entropy, kept});
    ctx->saved_data["cap"] = cap;
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["chunk_rows"] = chunk_rows;
    ctx->set_materialize_grads(false);  // an output without a gradient costs nothing
    if (!want_entropy) return {logprobs};
    return {logprobs, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& hidden_MD = saved[0];
    const at::Tensor& head_VD = saved[1];
    const double cap = ctx->saved_data["cap"].toDouble();
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const std::int64_t chunk_rows = ctx->saved_data["chunk_rows"].toInt();
    const std::int64_t rows = hidden_MD.size(0);
    at::Tensor grad_hidden = at::empty_like(hidden_MD);
    at::Tensor grad_head;  // summed over chunks in float32
    for (std::int64_t first = 0; first < rows; first += chunk_rows) {
      const std::int64_t count = std::min(chunk_rows, rows - first);
      const at::Tensor hidden = hidden_MD.narrow(0, first, count);
      const at::Tensor logp =
          saved[4].defined() ? saved[4] : LogSoftmaxOf(hidden, head_VD, cap, temperature);
      at::Tensor grad_logits =
          GradLogits(logp, saved[2].narrow(0, first, count), saved[3], grads, first, temperature);
      if (cap > 0) grad_logits.mul_(CapSlope(HeadLogits(hidden, head_VD), cap));
      grad_logits = grad_logits.to(hidden.scalar_type());
      at::Tensor out = grad_hidden.narrow(0, first, count);
      at::mm_out(out, grad_logits, head_VD);
      const at::Tensor part = at::mm(grad_logits.t(), hidden).to(at::kFloat);
      grad_head = grad_head.defined() ? grad_head.add_(part) : part;
    }
    if (!grad_head.defined()) grad_head = at::zeros_like(head_VD);
    return {grad_hidden,  grad_head.to(head_VD.scalar_type()),
            at::Tensor(), at::Tensor(),
            at::Tensor(), at::Tensor(),
            at::Tensor()};
  }

 private:
  static at::Tensor GradLogits(const at::Tensor& logp_cV, const at::Tensor& targets_c,
                               const at::Tensor& entropy_M, const variable_list& grads,
                               std::int64_t first, double temperature) {
    const std::int64_t count = logp_cV.size(0);
    const at::Tensor p = logp_cV.exp();
    const auto rows = [&](const at::Tensor& x_M) {
      return x_M.narrow(0, first, count).unsqueeze(1);
    };
    at::Tensor grad;
    if (grads[0].defined()) {
      const at::Tensor weight = rows(grads[0]);
      grad = (p * weight.neg()).scatter_add_(1, targets_c.unsqueeze(1), weight.contiguous());
    }
    if (grads.size() > 1 && grads[1].defined()) {
      const at::Tensor of_entropy = (logp_cV + rows(entropy_M)).mul_(p).mul_(rows(grads[1]));
      grad = grad.defined() ? grad.sub_(of_entropy) : of_entropy.neg();
    }
    return temperature == 1.0 ? grad : grad.div_(temperature);
  }
};

}  // namespace

TokenLogprobs ChunkedLogprobs(Transformer& model, const at::Tensor& hidden_MD,
                              const at::Tensor& targets_M, double temperature,
                              std::int64_t chunk_rows, EntropyMode entropy) {
  TORCH_CHECK(temperature > 0, "ChunkedLogprobs: temperature = ", temperature,
              "; expected above 0");
  TORCH_CHECK(chunk_rows > 0, "ChunkedLogprobs: chunk_rows = ", chunk_rows, "; expected above 0");
  TORCH_CHECK(
      hidden_MD.dim() == 2 && targets_M.dim() == 1 && hidden_MD.size(0) == targets_M.size(0),
      "ChunkedLogprobs: hidden ", hidden_MD.sizes(), " and targets ", targets_M.sizes(),
      " do not match");
  const at::Tensor targets = targets_M.to(hidden_MD.device(), at::kLong);
  auto out =
      ChunkedFunction::apply(hidden_MD, model.weights().head_VD, targets, model.config().logit_cap,
                             temperature, chunk_rows, entropy != EntropyMode::kNone);
  TokenLogprobs result{out[0], entropy == EntropyMode::kNone ? at::Tensor() : out[1]};
  if (entropy == EntropyMode::kDetached) result.entropy_M = result.entropy_M.detach();
  return result;
}

}  // namespace buttress
