// Statistics over the tokens of each completion of a micro-batch. Torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// M tokens, packed completion after completion, of C completions.
class CompletionSums {
 public:
  // `keep_M` (bool): tokens that count. `lengths_C` (int64): tokens of each completion, kept or
  // not, M together; undefined: statistics must not be asked for.
  CompletionSums(at::Tensor lengths_C, at::Tensor keep_M);

  // [M] float32 without gradient: each token gets the sum, or the mean, over the kept tokens of its
  // completion; 0 for a completion that keeps none. Summed in float64, so that neither length nor
  // order of a completion shows in float32.
  at::Tensor Sum(const at::Tensor& x_M) const;
  at::Tensor Mean(const at::Tensor& x_M) const;

 private:
  at::Tensor OverCompletion(const at::Tensor& x_M) const;

  const at::Tensor lengths_C_;
  const at::Tensor keep_M_;
};

}  // namespace buttress
