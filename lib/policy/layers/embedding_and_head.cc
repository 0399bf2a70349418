#include "lib/policy/layers/embedding_and_head.h"

#include <torch/types.h>

#include <algorithm>

#include "lib/policy/device_copy.h"

namespace buttress {
namespace {

// Rows of the head that are float32 at a time.
constexpr std::int64_t kBlockRows = 4096;

// LibTorch's matrix products on CPUs round to the dtype of their factors.
at::Tensor BlockedLogits(const at::Tensor& hidden_ND, const at::Tensor& head_VD) {
  const at::NoGradGuard no_grad;
  const std::int64_t V = head_VD.size(0);
  const at::Tensor hidden = hidden_ND.to(at::kFloat);
  at::Tensor logits_NV = at::empty({hidden.size(0), V}, hidden.options());
  for (std::int64_t first = 0; first < V; first += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, V - first);
    at::Tensor out = logits_NV.narrow(1, first, rows);
    at::mm_out(out, hidden, head_VD.narrow(0, first, rows).to(at::kFloat).t());
  }
  return logits_NV;
}

}  // namespace

at::Tensor Embed(const at::Tensor& table_VD, const at::Tensor& tokens_N) {
  return table_VD.index_select(0, tokens_N);
}

EmbeddingGradient EmbedBackward(const at::Tensor& tokens_N, const at::Tensor& grad_ND) {
  const at::NoGradGuard no_grad;
  const auto [rows_U, row_of_token_N, counts] =
      at::_unique2(tokens_N.cpu(), /*sorted=*/true, /*return_inverse=*/true);
  const at::Device device = grad_ND.device();
  const at::Tensor grad_UD = at::embedding_dense_backward(
      grad_ND.to(at::kFloat), ToDevice(row_of_token_N, device), rows_U.size(0),
      /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
  return {ToDevice(rows_U, device), grad_UD};
}

at::Tensor HeadLogits(const at::Tensor& hidden_ND, const at::Tensor& head_VD) {
  if (head_VD.scalar_type() == at::kFloat) return at::linear(hidden_ND, head_VD);
  if (!head_VD.is_cpu()) return at::mm(hidden_ND, head_VD.t(), at::kFloat);
  return BlockedLogits(hidden_ND, head_VD);
}

at::Tensor CapLogits(const at::Tensor& logits, double cap) {
  return cap == 0 ? logits : (logits / cap).tanh() * cap;
}

at::Tensor CapSlope(const at::Tensor& capped, double cap) {
  return cap == 0 ? at::ones_like(capped) : 1 - (capped / cap).square();
}

}  // namespace buttress
