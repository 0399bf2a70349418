// Gradients of all parameters in a few flat buckets, summed over the ranks. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "learner/optimizer.h"
#include "lib/base/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// View of a contiguous tensor as a collective's buffer.
Buffer BufferOf(const at::Tensor& tensor);

// Makes each parameter's gradient a view into a bucket, so that the backward pass accumulates where
// the collective sums. Not thread-safe.
class GradReducer {
 public:
  // `collective` must outlive it.
  GradReducer(const NamedTensors& parameters, Collective& collective,
              std::chrono::milliseconds timeout);

  // Before the first backward pass of a step.
  void Zero();

  // Sums over the ranks. All buckets are posted before the first is waited for. The result is equal
  // on all ranks, bit for bit.
  Status Reduce();

  // L2 norm over all gradients. NaN or infinite if one of them is.
  double Norm() const;

  void Scale(double factor);

  std::int64_t bytes() const;

 private:
  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  std::vector<at::Tensor> buckets_;
};

}  // namespace buttress
