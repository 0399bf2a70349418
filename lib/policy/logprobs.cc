// Shapes: M rows, D width, V vocabulary, c rows of a chunk, v rows of the head.
//
// With l = logits / temperature, p = softmax(l), H = -sum p log p (capped logits, if the model caps
// them, whose slope CapSlope has):
//   d logp[t] / d l = onehot(t) - p          d H / d l = -p * (log p + H)
#include "lib/policy/logprobs.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "lib/policy/layers/embedding_and_head.h"

namespace buttress {
namespace {

// Rows of the head whose gradient exists at a time.
constexpr std::int64_t kHeadRows = 16384;

// Rows whose exponentials exist at a time, besides the chunk.
constexpr std::int64_t kSoftmaxRows = 32;

// Calls `function` with row ranges [first, first + count) of at most kSoftmaxRows rows.
template <class Function>
void ForRowsOf(const at::Tensor& x_cV, const Function& function) {
  const std::int64_t rows = x_cV.size(0);
  for (std::int64_t first = 0; first < rows; first += kSoftmaxRows)
    function(first, std::min(kSoftmaxRows, rows - first));
}

void LogSoftmaxInPlace(const at::Tensor& logits_cV) {
  ForRowsOf(logits_cV, [&](std::int64_t first, std::int64_t count) {
    const at::Tensor rows = logits_cV.narrow(0, first, count);
    rows.copy_(at::log_softmax(rows, -1));
  });
}

void EntropyOf(const at::Tensor& logp_cV, const at::Tensor& entropy_c) {
  ForRowsOf(logp_cV, [&](std::int64_t first, std::int64_t count) {
    const at::Tensor rows = logp_cV.narrow(0, first, count);
    entropy_c.narrow(0, first, count).copy_(rows.exp().mul_(rows).sum(-1).neg_());
  });
}

void AddHeadGradient(const at::Tensor& grad_logits_cV, const at::Tensor& hidden_cD,
                     const HeadPass::AddRows& add) {
  const std::int64_t V = grad_logits_cV.size(1);
  for (std::int64_t first = 0; first < V; first += kHeadRows) {
    const std::int64_t rows = std::min(kHeadRows, V - first);
    add(first, at::mm(grad_logits_cV.narrow(1, first, rows).t(), hidden_cD));
  }
}

}  // namespace

HeadPass::HeadPass(const Transformer& model, const at::Tensor& hidden_MD,
                   const at::Tensor& targets_M, const PassOptions& options)
    : model_(model),
      hidden_MD_(hidden_MD.detach()),
      targets_M_(targets_M.to(hidden_MD.device(), at::kLong)),
      options_(options) {
  TORCH_CHECK(options.temperature > 0, "HeadPass: temperature = ", options.temperature,
              "; expected above 0");
  TORCH_CHECK(options.chunk_rows > 0, "HeadPass: chunk_rows = ", options.chunk_rows,
              "; expected above 0");
  TORCH_CHECK(
      hidden_MD.dim() == 2 && targets_M.dim() == 1 && hidden_MD.size(0) == targets_M.size(0),
      "HeadPass: hidden ", hidden_MD.sizes(), " and targets ", targets_M.sizes(), " do not match");
  const bool keep = at::GradMode::is_enabled();
  const at::NoGradGuard no_grad;
  const std::int64_t rows = hidden_MD_.size(0);
  const auto floats = hidden_MD_.options().dtype(at::kFloat);
  output_.logprobs_M = at::empty({rows}, floats);
  if (options_.entropy != EntropyMode::kNone) output_.entropy_M = at::empty({rows}, floats);
  for (std::int64_t first = 0; first < rows; first += options_.chunk_rows) {
    const std::int64_t count = std::min(options_.chunk_rows, rows - first);
    const auto chunk = [&](const at::Tensor& x_M) { return x_M.narrow(0, first, count); };
    const at::Tensor logp_cV = LogSoftmax(chunk(hidden_MD_));
    chunk(output_.logprobs_M).copy_(logp_cV.gather(1, chunk(targets_M_).unsqueeze(1)).squeeze(1));
    if (output_.entropy_M.defined()) EntropyOf(logp_cV, chunk(output_.entropy_M));
    if (keep && count == rows) kept_MV_ = logp_cV;
  }
}

// Returns log softmax(cap(hidden_cD head^T) / temperature), [c, V], in float32.
at::Tensor HeadPass::LogSoftmax(const at::Tensor& hidden_cD) const {
  const at::Tensor logits =
      CapLogits(HeadLogits(hidden_cD, model_.weights().head_VD), model_.config().logit_cap);
  if (options_.temperature != 1.0) logits.div_(options_.temperature);
  LogSoftmaxInPlace(logits);
  return logits;
}

at::Tensor HeadPass::Backward(const OutputGradient& gradient, const AddRows& add) {
  const at::NoGradGuard no_grad;
  at::Tensor grad_MD = at::zeros_like(hidden_MD_);
  if (!gradient.logprobs_M.defined() && !gradient.entropy_M.defined()) return grad_MD;
  const std::int64_t rows = hidden_MD_.size(0);
  for (std::int64_t first = 0; first < rows; first += options_.chunk_rows) {
    const std::int64_t count = std::min(options_.chunk_rows, rows - first);
    const at::Tensor grad_cV = GradLogits(gradient, first, count).to(hidden_MD_.scalar_type());
    at::Tensor grad_cD = grad_MD.narrow(0, first, count);
    at::mm_out(grad_cD, grad_cV, model_.weights().head_VD);
    AddHeadGradient(grad_cV, hidden_MD_.narrow(0, first, count), add);
  }
  return grad_MD;
}

// Overwrites the log-probs of the chunk, which are the largest tensor of a step.
at::Tensor HeadPass::GradLogits(const OutputGradient& gradient, std::int64_t first,
                                std::int64_t count) {
  const auto chunk = [&](const at::Tensor& x_M) {
    return x_M.narrow(0, first, count).unsqueeze(1);
  };
  const at::Tensor hidden_cD = hidden_MD_.narrow(0, first, count);
  at::Tensor logp_cV =
      kept_MV_.defined() ? std::exchange(kept_MV_, at::Tensor()) : LogSoftmax(hidden_cD);
  at::Tensor grad_cV = gradient.entropy_M.defined() ? logp_cV.exp() : logp_cV.exp_();
  if (gradient.entropy_M.defined())
    logp_cV.add_(chunk(output_.entropy_M)).mul_(grad_cV).mul_(chunk(gradient.entropy_M));
  if (gradient.logprobs_M.defined()) {
    const at::Tensor weight_c1 = chunk(gradient.logprobs_M);
    grad_cV.mul_(weight_c1.neg()).scatter_add_(1, chunk(targets_M_), weight_c1.contiguous());
  } else {
    grad_cV.zero_();
  }
  if (gradient.entropy_M.defined()) grad_cV.sub_(logp_cV);
  if (options_.temperature != 1.0) grad_cV.div_(options_.temperature);
  const double cap = model_.config().logit_cap;
  if (cap > 0) grad_cV.mul_(CapSlope(HeadLogits(hidden_cD, model_.weights().head_VD), cap));
  return grad_cV;
}

TokenLogprobs ChunkedLogprobs(const Transformer& model, const at::Tensor& hidden_MD,
                              const at::Tensor& targets_M, const PassOptions& options) {
  const at::NoGradGuard no_grad;
  return HeadPass(model, hidden_MD, targets_M, options).output();
}

}  // namespace buttress
