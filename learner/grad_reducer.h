// The gradients of all parameters in a few flat float32 buckets, summed over the ranks. Torch.
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

// Sums gradients over micro-batches and ranks in float32, whatever the dtype of the parameters: in
// bfloat16, a sum stops to grow at 256 times its summands. Not thread-safe.
class GradReducer {
 public:
  // `collective` must outlive the reducer.
  GradReducer(const NamedTensors& parameters, Collective& collective,
              std::chrono::milliseconds timeout);

  // Sets all gradients to 0.
  void Zero();

  // Adds the gradient of `loss`, a scalar that depends on every parameter.
  void Backward(const at::Tensor& loss);

  // The sums so far, a view into the buckets for each parameter.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

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
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buckets_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace buttress
