#include "lib/rl/loss/correction.h"

#include <torch/types.h>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

at::Tensor LogWeight(const at::Tensor& gap_M, const CompletionSums& completions,
                     CorrectionLevel level) {
  switch (level) {
    case CorrectionLevel::kToken:
      return gap_M;
    case CorrectionLevel::kSequence:
      return completions.Sum(gap_M);
    case CorrectionLevel::kGeometric:
      return completions.Mean(gap_M);
  }
  return gap_M;
}

}  // namespace

CorrectionWeights Correct(const at::Tensor& old_logprobs_M, const at::Tensor& sampler_logprobs_M,
                          const CompletionSums& completions, const LossOptions& options) {
  BUTTRESS_CHECK(options.correction != CorrectionMode::kNone, "no correction was asked for");
  const at::Tensor gap_M = old_logprobs_M.detach() - sampler_logprobs_M;
  const at::Tensor w_M = at::exp(
      LogWeight(gap_M, completions, options.correction_level).clamp(-kMaxLogRatio, kMaxLogRatio));
  const at::Tensor above_M = w_M > options.correction_cap;
  const at::Tensor none_M = at::zeros_like(above_M);
  switch (options.correction) {
    case CorrectionMode::kNone:
    case CorrectionMode::kIs:
      return {w_M, none_M, none_M};
    case CorrectionMode::kTis:
      return {w_M.clamp_max(options.correction_cap), above_M, none_M};
    case CorrectionMode::kMis:
      return {at::where(above_M, 0.0, w_M), none_M, above_M};
    case CorrectionMode::kIcePop: {
      const at::Tensor outside_M = above_M | (w_M < options.correction_floor);
      return {at::where(outside_M, 0.0, w_M), none_M, outside_M};
    }
  }
  return {w_M, none_M, none_M};
}

}  // namespace buttress
