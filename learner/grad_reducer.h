// The gradients of all parameters in a few flat buckets, summed over the ranks. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "learner/optimizer.h"
#include "lib/base/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// Returns a contiguous tensor as the buffer of a collective, without a copy.
Buffer BufferOf(const at::Tensor& tensor);

// Makes each parameter's gradient a view into a bucket, so that the backward pass accumulates where
// the collective sums. Not thread-safe.
class GradReducer {
 public:
  // `collective` must outlive the reducer.
  GradReducer(const NamedTensors& parameters, Collective& collective,
              std::chrono::milliseconds timeout);

  // Sets all gradients to 0.
  void Zero();

  // Sums the gradients over the ranks. All buckets are posted before the first wait. The result is
  // equal on all ranks, bit for bit.
  Status Reduce();

  // Returns the L2 norm over all gradients, which is not finite if one of them is not.
  double Norm() const;

  void Scale(double factor);

  // The bytes that one Reduce sums.
  std::int64_t bytes() const;

 private:
  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  std::vector<at::Tensor> buckets_;
};

}  // namespace buttress
