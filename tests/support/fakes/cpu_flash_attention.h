// LibTorch's flash attention of variable lengths for CPUs: the operators that GPUs run, with their
// arguments, results and conditions, one sequence after another in float32. A test program that
// calls RegisterCpuFlashAttention gives them to at::_flash_attention_forward and _backward. Torch.
#pragma once

#include <torch/library.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

namespace buttress {

// One sequence: T queries, S keys, K heads of keys with G heads of queries each.
class CpuFlashSequence {
 public:
  CpuFlashSequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                   std::optional<std::int64_t> left)
      : scale_(scale), q_(Queries(q, k.size(1))), k_(Keys(k)), v_(Keys(v)) {
    const std::int64_t T = q.size(0), S = k.size(0);
    allowed_TS_ = at::ones({T, S}, at::kBool).tril(S - T);
    if (left.has_value()) allowed_TS_ = allowed_TS_.triu(S - T - *left);
  }

  // [K, G, T]
  at::Tensor LogSumExp() const { return at::logsumexp(Scores(), -1); }

  // [T, H, C]
  at::Tensor Out() const { return Rows(at::matmul(at::softmax(Scores(), -1), v_)); }

  // Of q [T, H, C], k and v [S, K, C]. `out` and `logsumexp` are those of the forward pass.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> Gradients(const at::Tensor& grad_out,
                                                           const at::Tensor& out,
                                                           const at::Tensor& logsumexp_HT) const {
    const at::Tensor dout = Queries(grad_out, k_.size(0));
    const at::Tensor weights =
        (Scores() - logsumexp_HT.view({q_.size(0), q_.size(1), -1, 1})).exp();
    const at::Tensor along_out = (dout * Queries(out, k_.size(0))).sum(-1, /*keepdim=*/true);
    const at::Tensor dscores =
        weights * (at::matmul(dout, v_.transpose(2, 3)) - along_out) * scale_;
    const auto of_keys = [](const at::Tensor& dKGSC) { return dKGSC.sum(1).transpose(0, 1); };
    return {Rows(at::matmul(dscores, k_)), of_keys(at::matmul(dscores.transpose(2, 3), q_)),
            of_keys(at::matmul(weights.transpose(2, 3), dout))};
  }

 private:
  static at::Tensor Queries(const at::Tensor& rows_THC, std::int64_t K) {
    return rows_THC.to(at::kFloat).unflatten(1, {K, -1}).permute({1, 2, 0, 3});
  }

  static at::Tensor Keys(const at::Tensor& rows_SKC) {
    return rows_SKC.to(at::kFloat).transpose(0, 1).unsqueeze(1);
  }

  static at::Tensor Rows(const at::Tensor& x_KGTC) {
    return x_KGTC.permute({2, 0, 1, 3}).flatten(1, 2);
  }

  at::Tensor Scores() const {
    return (at::matmul(q_, k_.transpose(2, 3)) * scale_)
        .masked_fill(allowed_TS_.logical_not(), -INFINITY);
  }

  double scale_;
  at::Tensor q_;           // [K, G, T, C]
  at::Tensor k_;           // [K, 1, S, C]
  at::Tensor v_;           // [K, 1, S, C]
  at::Tensor allowed_TS_;  // bool
};

// What the operators for GPUs require, and the lengths of the sequences.
struct CpuFlashBatch {
  at::Tensor cum_q;
  at::Tensor cum_k;

  CpuFlashBatch(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const at::Tensor& cumulative_q, const at::Tensor& cumulative_k, std::int64_t max_q,
                std::int64_t max_k, bool is_causal)
      : cum_q(cumulative_q), cum_k(cumulative_k) {
    for (const at::Tensor& x : {q, k, v})
      TORCH_CHECK(x.dim() == 3 && x.stride(2) == 1 && x.scalar_type() == q.scalar_type());
    TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256 && q.size(1) % k.size(1) == 0);
    TORCH_CHECK(k.sizes() == v.sizes() && k.size(2) == q.size(2) && is_causal);
    for (const at::Tensor& cum : {cum_q, cum_k}) {
      TORCH_CHECK(cum.scalar_type() == at::kInt && cum.is_contiguous() && cum.dim() == 1);
      TORCH_CHECK(cum.size(0) == cum_q.size(0) && At(cum, 0) == 0);
    }
    // The gradients of rows of no sequence would not be set.
    TORCH_CHECK(At(cum_q, sequences()) == q.size(0) && At(cum_k, sequences()) == k.size(0));
    std::int64_t most_q = 0, most_k = 0;
    for (std::int64_t b = 0; b < sequences(); ++b) {
      most_q = std::max(most_q, At(cum_q, b + 1) - At(cum_q, b));
      most_k = std::max(most_k, At(cum_k, b + 1) - At(cum_k, b));
    }
    TORCH_CHECK(most_q == max_q && most_k == max_k);
  }

  static std::int64_t At(const at::Tensor& cum, std::int64_t b) {
    return cum.const_data_ptr<std::int32_t>()[b];
  }

  std::int64_t sequences() const { return cum_q.size(0) - 1; }

  // The rows of sequence b in dimension `dim` of x.
  at::Tensor Queries(const at::Tensor& x, std::int64_t b, std::int64_t dim = 0) const {
    return x.slice(dim, At(cum_q, b), At(cum_q, b + 1));
  }

  at::Tensor Keys(const at::Tensor& x, std::int64_t b) const {
    return x.slice(0, At(cum_k, b), At(cum_k, b + 1));
  }
};

inline std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> CpuFlashForward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const std::optional<at::Tensor>& cum_q, const std::optional<at::Tensor>& cum_k,
    std::int64_t max_q, std::int64_t max_k, double /*dropout_p*/, bool is_causal,
    bool /*return_debug_mask*/, std::optional<double> scale, std::optional<std::int64_t> left,
    std::optional<std::int64_t> /*right*/, const std::optional<at::Tensor>& /*seqused_k*/,
    const std::optional<at::Tensor>& /*alibi_slopes*/) {
  const CpuFlashBatch batch(q, k, v, cum_q.value(), cum_k.value(), max_q, max_k, is_causal);
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor logsumexp = at::empty({q.size(1), q.size(0)}, at::kFloat);
  for (std::int64_t b = 0; b < batch.sequences(); ++b) {
    const CpuFlashSequence one(batch.Queries(q, b), batch.Keys(k, b), batch.Keys(v, b),
                               scale.value(), left);
    batch.Queries(out, b).copy_(one.Out());
    batch.Queries(logsumexp, b, 1).copy_(one.LogSumExp().flatten(0, 1));
  }
  return {out, logsumexp, at::empty({2}, at::kLong), at::empty({}, at::kLong), at::Tensor()};
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> CpuFlashBackward(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_q,
    const at::Tensor& cum_k, std::int64_t max_q, std::int64_t max_k, double /*dropout_p*/,
    bool is_causal, const at::Tensor& /*rng_state*/, const at::Tensor& /*unused*/,
    std::optional<double> scale, std::optional<std::int64_t> left,
    std::optional<std::int64_t> /*right*/) {
  const CpuFlashBatch batch(q, k, v, cum_q, cum_k, max_q, max_k, is_causal);
  const at::Tensor grad_q = at::empty(q.sizes(), q.options());
  const at::Tensor grad_k = at::empty(k.sizes(), k.options());
  const at::Tensor grad_v = at::empty(v.sizes(), v.options());
  for (std::int64_t b = 0; b < batch.sequences(); ++b) {
    const CpuFlashSequence one(batch.Queries(q, b), batch.Keys(k, b), batch.Keys(v, b),
                               scale.value(), left);
    const auto [dq, dk, dv] = one.Gradients(batch.Queries(grad_out, b), batch.Queries(out, b),
                                            batch.Queries(logsumexp, b, 1));
    batch.Queries(grad_q, b).copy_(dq);
    batch.Keys(grad_k, b).copy_(dk);
    batch.Keys(grad_v, b).copy_(dv);
  }
  return {grad_q, grad_k, grad_v};
}

inline void RegisterCpuFlashAttention(torch::Library& library) {
  library.impl("_flash_attention_forward", TORCH_FN(CpuFlashForward));
  library.impl("_flash_attention_backward", TORCH_FN(CpuFlashBackward));
}

}  // namespace buttress
