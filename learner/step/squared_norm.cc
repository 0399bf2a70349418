#include "learner/step/squared_norm.h"

#include <torch/types.h>

#include <cstdint>

namespace buttress {
namespace {

// Values that are summed in float32. On a CPU, LibTorch sums a lane of a vector register with one
// accumulator, which at 2^24 times its summands stops to grow.
constexpr std::int64_t kSlice = 512;

at::Tensor SquaredNormOfRows(const at::Tensor& x_RS) {
  const at::Tensor norm_R = at::linalg_vector_norm(x_RS, 2, at::IntArrayRef{1}, false, at::kFloat);
  return norm_R.to(at::kDouble).square_().sum();
}

}  // namespace

at::Tensor SquaredNorm(at::TensorList tensors) {
  const at::NoGradGuard no_grad;
  if (tensors.empty()) return at::zeros({}, at::kDouble);
  at::Tensor sum = at::zeros({}, tensors.front().options().dtype(at::kDouble));
  for (const at::Tensor& x : tensors) {
    const std::int64_t sliced = x.numel() / kSlice * kSlice;
    const at::Tensor flat = x.detach().view(-1);
    sum.add_(SquaredNormOfRows(flat.narrow(0, 0, sliced).view({sliced / kSlice, kSlice})));
    sum.add_(SquaredNormOfRows(flat.narrow(0, sliced, x.numel() - sliced).unsqueeze(0)));
  }
  return sum;
}

}  // namespace buttress
