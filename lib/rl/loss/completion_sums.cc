// M: tokens of the micro-batch, C: its completions.
#include "lib/rl/loss/completion_sums.h"

#include <torch/types.h>

#include "lib/base/report/check.h"

namespace buttress {

CompletionSums::CompletionSums(at::Tensor lengths_C, at::Tensor keep_M)
    : lengths_C_(std::move(lengths_C)), keep_M_(std::move(keep_M)) {}

// [M] float64.
at::Tensor CompletionSums::OverCompletion(const at::Tensor& x_M) const {
  BUTTRESS_CHECK(lengths_C_.defined(), "a loss over completions needs their lengths");
  const at::Tensor kept_M = at::where(keep_M_, x_M.detach().to(at::kDouble), 0.0);
  if (kept_M.numel() == 0) return kept_M;
  const at::Tensor sums_C =
      at::segment_reduce(kept_M, "sum", lengths_C_, /*indices=*/{}, /*offsets=*/{}, /*axis=*/0,
                         /*unsafe=*/true, /*initial=*/0.0);
  return at::repeat_interleave(sums_C, lengths_C_, 0, x_M.numel());
}

at::Tensor CompletionSums::Sum(const at::Tensor& x_M) const {
  return OverCompletion(x_M).to(at::kFloat);
}

at::Tensor CompletionSums::Mean(const at::Tensor& x_M) const {
  const at::Tensor kept_M = OverCompletion(keep_M_.to(at::kDouble));
  return (OverCompletion(x_M) / kept_M.clamp_min(1.0)).to(at::kFloat);
}

}  // namespace buttress
