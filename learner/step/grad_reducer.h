// The gradients of all parameters, one flat float32 buffer for each unit of the model, summed over
// the ranks. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/policy/model_pass.h"
#include "lib/policy/transformer.h"

namespace buttress {

// One buffer for what goes with the parameters of a unit: gradients, moments, masters.
struct UnitBuffer {
  at::Tensor flat;                // one value for each value of the unit's parameters
  std::vector<at::Tensor> views;  // by parameter, in its shape
};

// Returns zeros on the device of the unit.
UnitBuffer MakeUnitBuffer(const ParameterUnit& unit, at::ScalarType dtype);

// Returns a contiguous tensor as the buffer of a collective, without a copy.
Buffer BufferOf(const at::Tensor& tensor);

// Sums gradients over micro-batches and ranks in float32, whatever the dtype of the parameters: in
// bfloat16, a sum stops to grow at 256 times its summands. A unit takes memory with its first
// gradient, when the backward pass has let go of the activations behind it. Not thread-safe.
class GradReducer final : public GradientSink {
 public:
  // `collective` must outlive the reducer.
  GradReducer(const std::vector<ParameterUnit>& units, Collective& collective,
              std::chrono::milliseconds timeout);

  // Sets all gradients to 0 and frees their memory.
  void Clear();

  void Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) override;
  void AddRows(std::size_t unit, std::size_t index, std::int64_t first,
               const at::Tensor& gradient) override;
  void AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                 const at::Tensor& gradient_UD) override;

  // Sums the gradients over the ranks. All units are posted before the first wait. The result is
  // equal on all ranks, bit for bit.
  Status Reduce();

  // The sums of all parameters, unit after unit, in float32. REQUIRES: Reduce since Clear.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

  // The same with the names of their parameters.
  std::vector<std::pair<std::string, at::Tensor>> named_gradients() const;

  // Returns the L2 norm over all gradients, which is not finite if one of them is not. REQUIRES:
  // Reduce since Clear.
  double Norm() const;

  // REQUIRES: Reduce since Clear.
  void Scale(double factor);

  // The bytes that one Reduce sums.
  std::int64_t bytes() const { return bytes_; }

 private:
  // Gives the unit a bucket of zeros if it has none.
  void Allocate(std::size_t unit);

  const std::vector<ParameterUnit> units_;
  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  std::int64_t bytes_ = 0;
  std::vector<at::Tensor> buckets_;    // by unit, undefined without a gradient since Clear
  std::vector<std::size_t> first_;     // by unit, index of its first gradient
  std::vector<at::Tensor> gradients_;  // views into the buckets
};

}  // namespace buttress
