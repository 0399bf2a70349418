// Shapes: M rows, D width, V vocabulary, v columns of a block of the vocabulary.
//
// With l = logits / temperature (capped logits, if the model caps them), m the largest of a row,
// x = l - m, s = sum exp(x) and t = sum exp(x) x:
//   lse = m + log s    log p = l - lse    H = -sum p log p = log s - t / s
// m, s and t are those of the blocks so far; a new maximum rescales the sums (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867). The derivatives are
//   d logp[t] / d l = onehot(t) - p          d H / d l = -p * (log p + H)
#include "lib/policy/logprobs.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/cpu/packed_linear.h"
#include "lib/policy/decode/sampler.h"
#include "lib/policy/layers/embedding_and_head.h"

namespace buttress {
namespace {

// Logits of a block, 256 MiB of float32.
constexpr std::int64_t kBlockLogits = std::int64_t{1} << 26;

// Below all logits, and finite so that 0 * (kLowest - m) is 0.
constexpr double kLowest = -1e30;

// m, s and t of each row, [M, 1]. Sums of a block are float32; over many blocks, they are float64.
struct SoftmaxSums {
  at::Tensor max;
  at::Tensor sum;
  at::Tensor moment;  // t; undefined without entropy

  // Overwrites the logits if `reuse`.
  void Add(const at::Tensor& logits_Mv, bool reuse) {
    const at::Tensor larger = at::maximum(max, logits_Mv.amax(1, /*keepdim=*/true));
    const at::Tensor shift = (std::exchange(max, larger) - larger).to(at::kDouble);
    const at::Tensor scale = shift.exp();
    const at::Tensor x_Mv = reuse ? logits_Mv.sub_(max) : logits_Mv - max;
    const at::Tensor exp_Mv = moment.defined() ? x_Mv.exp() : x_Mv.exp_();
    const at::Tensor of_block = exp_Mv.sum(1, /*keepdim=*/true);
    if (moment.defined()) {
      moment.addcmul_(sum, shift).mul_(scale);
      moment.add_(exp_Mv.mul_(x_Mv).sum(1, /*keepdim=*/true));
    }
    sum.mul_(scale).add_(of_block);
  }
};

// Operations for one logit of a score.
constexpr std::int64_t kScoreWork = 8;

// Sets scores_3M to the log-prob, the log of the sum and the entropy of each row.
void ScoreRows(const at::Tensor& logits_MV, const at::Tensor& targets_M1, double temperature,
               const at::Tensor& scores_3M) {
  const std::int64_t V = logits_MV.size(1);
  const at::Tensor targets = targets_M1.contiguous();
  ForShares(logits_MV.size(0), kScoreWork * V, [&](std::int64_t first, std::int64_t rows) {
    std::vector<float> weights;
    for (std::int64_t r = first; r < first + rows; ++r) {
      const TokenScore score =
          ScoreToken(logits_MV.const_data_ptr<float>() + r * logits_MV.stride(0), V, temperature,
                     targets.const_data_ptr<std::int64_t>()[r], weights);
      float* to = scores_3M.mutable_data_ptr<float>() + r;
      to[0] = score.logprob;
      to[scores_3M.stride(0)] = score.logsum;
      to[2 * scores_3M.stride(0)] = score.entropy;
    }
  });
}

// LibTorch's matrix products on CPUs round to the dtype of their factors.
void AddProduct(const at::Tensor& sum_MD, const at::Tensor& grad_Mv, const at::Tensor& head_vD) {
  if (grad_Mv.scalar_type() == at::kFloat) {
    sum_MD.addmm_(grad_Mv, head_vD);
  } else if (!grad_Mv.is_cpu()) {
    sum_MD.add_(at::mm(grad_Mv, head_vD, at::kFloat));
  } else {
    sum_MD.add_(at::mm(grad_Mv, head_vD));
  }
}

}  // namespace

HeadPass::HeadPass(const Transformer& model, const at::Tensor& hidden_MD,
                   const at::Tensor& targets_M, const PassOptions& options)
    : model_(model),
      hidden_MD_(hidden_MD.detach()),
      targets_M1_(targets_M.to(hidden_MD.device(), at::kLong).unsqueeze(-1)),
      options_(options) {
  TORCH_CHECK(options.temperature > 0, "HeadPass: temperature = ", options.temperature,
              "; expected above 0");
  TORCH_CHECK(
      hidden_MD.dim() == 2 && targets_M.dim() == 1 && hidden_MD.size(0) == targets_M.size(0),
      "HeadPass: hidden ", hidden_MD.sizes(), " and targets ", targets_M.sizes(), " do not match");
  const std::int64_t rows = hidden_MD_.size(0);
  const bool keep =
      at::GradMode::is_enabled() && rows * model.weights().head_VD.size(0) <= options.kept_logits;
  const at::NoGradGuard no_grad;
  if (model.row_wise() && HasRowProduct(model.weights().head_VD)) {
    ScoreRowWise(keep);
    return;
  }
  const at::Tensor zeros_M1 = at::zeros({rows, 1}, hidden_MD_.options().dtype(at::kFloat));
  SoftmaxSums sums{at::full_like(zeros_M1, kLowest), zeros_M1.to(at::kDouble), at::Tensor()};
  if (options.entropy != EntropyMode::kNone) sums.moment = zeros_M1.to(at::kDouble);
  at::Tensor target_M1 = zeros_M1;
  for (const Block& block : Blocks()) {
    const at::Tensor logits_Mv = Logits(block);
    const at::Tensor column_M1 = targets_M1_ - block.first;
    target_M1 = at::where(column_M1.ge(0).logical_and(column_M1.lt(block.count)),
                          logits_Mv.gather(1, column_M1.clamp(0, block.count - 1)), target_M1);
    sums.Add(logits_Mv, /*reuse=*/!keep);
    if (keep) kept_.push_back(logits_Mv);
  }
  const at::Tensor log_M1 = sums.sum.log();
  lse_M1_ = (log_M1 + sums.max).to(at::kFloat);
  output_.logprobs_M = (target_M1 - sums.max - log_M1).to(at::kFloat).squeeze(1);
  if (sums.moment.defined())
    output_.entropy_M = (log_M1 - sums.moment / sums.sum).to(at::kFloat).squeeze(1);
}

// Scores some rows at a time with all of the vocabulary, as the sampler of a decoder does.
void HeadPass::ScoreRowWise(bool keep) {
  const at::Tensor& head_VD = model_.weights().head_VD;
  const std::int64_t V = head_VD.size(0);
  const std::int64_t M = hidden_MD_.size(0);
  const auto options = hidden_MD_.options().dtype(at::kFloat);
  at::Tensor scores_3M = at::empty({3, M}, options);
  const std::int64_t most = keep ? M : std::max<std::int64_t>(1, kBlockLogits / V);
  for (std::int64_t first = 0; first < M; first += most) {
    const std::int64_t some = std::min(most, M - first);
    const at::Tensor logits_rV =
        CapLogits(RowProduct(hidden_MD_.narrow(0, first, some), head_VD, {}, at::kFloat),
                  model_.config().logit_cap);
    ScoreRows(logits_rV, targets_M1_.narrow(0, first, some), options_.temperature,
              scores_3M.narrow(1, first, some));
    if (!keep) continue;
    if (options_.temperature != 1.0) logits_rV.div_(options_.temperature);
    for (const Block& block : Blocks())
      kept_.push_back(logits_rV.narrow(1, block.first, block.count));
  }
  output_.logprobs_M = scores_3M[0];
  lse_M1_ = scores_3M[1].unsqueeze(1);
  if (options_.entropy != EntropyMode::kNone) output_.entropy_M = scores_3M[2];
}

std::vector<HeadPass::Block> HeadPass::Blocks() const {
  const std::int64_t V = model_.weights().head_VD.size(0);
  const std::int64_t rows = hidden_MD_.size(0);
  if (rows == 0) return {};
  const std::int64_t most = std::max<std::int64_t>(1, kBlockLogits / rows);
  const std::int64_t columns = std::min(options_.vocabulary_block, most);
  std::vector<Block> blocks;
  for (std::int64_t first = 0; first < V; first += columns)
    blocks.push_back({blocks.size(), first, std::min(columns, V - first)});
  return blocks;
}

// Returns l of the block, [M, v], in float32.
at::Tensor HeadPass::Logits(const Block& block) const {
  const at::Tensor head_vD = model_.weights().head_VD.narrow(0, block.first, block.count);
  const at::Tensor logits = CapLogits(HeadLogits(hidden_MD_, head_vD), model_.config().logit_cap);
  return options_.temperature == 1.0 ? logits : logits.div_(options_.temperature);
}

at::Tensor HeadPass::Backward(const OutputGradient& gradient, const AddRows& add) {
  const at::NoGradGuard no_grad;
  if (!gradient.logprobs_M.defined() && !gradient.entropy_M.defined())
    return at::zeros_like(hidden_MD_);
  at::Tensor grad_MD = at::zeros(hidden_MD_.sizes(), hidden_MD_.options().dtype(at::kFloat));
  for (const Block& block : Blocks()) {
    const at::Tensor grad_Mv = GradLogits(gradient, block).to(hidden_MD_.scalar_type());
    const at::Tensor head_vD = model_.weights().head_VD.narrow(0, block.first, block.count);
    AddProduct(grad_MD, grad_Mv, head_vD);
    if (add) add(block.first, at::mm(grad_Mv.t(), hidden_MD_));
  }
  return grad_MD.to(hidden_MD_.scalar_type());
}

at::Tensor HeadPass::GradLogits(const OutputGradient& gradient, const Block& block) {
  const at::Tensor logits_Mv =
      kept_.empty() ? Logits(block) : std::exchange(kept_[block.index], at::Tensor());
  const double cap = model_.config().logit_cap;
  at::Tensor slope_Mv;
  if (cap > 0) slope_Mv = CapSlope(logits_Mv * options_.temperature, cap);
  const at::Tensor logp_Mv = logits_Mv.sub_(lse_M1_);
  const bool of_entropy = gradient.entropy_M.defined();
  at::Tensor grad_Mv = of_entropy ? logp_Mv.exp() : logp_Mv.exp_();
  at::Tensor weight_M1 = at::zeros_like(lse_M1_);
  if (gradient.logprobs_M.defined()) weight_M1 = gradient.logprobs_M.unsqueeze(1);
  if (of_entropy) {
    logp_Mv.add_(output_.entropy_M.unsqueeze(1)).mul_(gradient.entropy_M.unsqueeze(1));
    grad_Mv.mul_(logp_Mv.add_(weight_M1).neg_());
  } else {
    grad_Mv.mul_(weight_M1.neg());
  }
  const at::Tensor column_M1 = targets_M1_ - block.first;
  const at::Tensor here_M1 = column_M1.ge(0).logical_and(column_M1.lt(block.count));
  grad_Mv.scatter_add_(1, column_M1.clamp(0, block.count - 1), weight_M1 * here_M1);
  if (options_.temperature != 1.0) grad_Mv.div_(options_.temperature);
  return cap > 0 ? grad_Mv.mul_(slope_Mv) : grad_Mv;
}

TokenLogprobs ScoreTokens(const Transformer& model, const at::Tensor& hidden_MD,
                          const at::Tensor& targets_M, const PassOptions& options) {
  const at::NoGradGuard no_grad;
  return HeadPass(model, hidden_MD, targets_M, options).output();
}

}  // namespace buttress
