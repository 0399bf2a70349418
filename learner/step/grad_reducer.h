// The gradients of all parameters in float32, one flat buffer for each unit of the model, summed
// over the ranks. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/policy/model_pass.h"
#include "lib/policy/weights/parameter_unit.h"

namespace buttress {

// Returns a contiguous tensor as the buffer of a collective, without a copy.
Buffer BufferOf(const at::Tensor& tensor);

// Sums gradients over micro-batches and ranks in float32, whatever the dtype of the parameters: in
// bfloat16, a sum stops to grow at 256 times its summands.
//
// A round is one pass on every rank. As soon as a unit's gradient of the round is complete, the
// ranks reduce it, and each keeps the sum of its own part (UnitShare), to which later rounds add.
// So the order of all sums is the same whatever else the ranks divide, and of whole units a rank
// holds only those of which a sum is on its way. Of a unit that stays divided, the gradient of the
// part is the sum, because the rows of all ranks came to it. Not thread-safe.
class GradReducer final : public GradientSink {
 public:
  // `collective` must outlive the reducer. REQUIRES: the units are padded for its ranks.
  GradReducer(const std::vector<ParameterUnit>& units, Collective& collective,
              std::chrono::milliseconds timeout);

  // Sets all gradients to 0 and frees their memory.
  void Clear();

  // Gradients of units that are not trainable are not taken. Done throws StatusError if a rank is
  // lost.
  void Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) override;
  void AddRows(std::size_t unit, std::size_t index, std::int64_t first,
               const at::Tensor& gradient) override;
  void AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                 const at::Tensor& gradient_UD) override;
  void Done(std::size_t unit) override;

  // The round of a rank that has no tokens while others may have some.
  void SkipRound();

  // Waits for the sums of all rounds.
  Status Reduce();

  // The sum of this rank's part of a unit, [size / ranks] float32. REQUIRES: Reduce since Clear,
  // and a trainable unit.
  const at::Tensor& part(std::size_t unit) const { return parts_[unit]; }

  // The parts by parameter, with their names. REQUIRES: Reduce since Clear.
  NamedTensors named_gradients() const;

  // Returns the sum of squares over the parts of this rank (squared_norm.h). REQUIRES: Reduce since
  // Clear.
  at::Tensor SquaredNorm() const;

  // REQUIRES: Reduce since Clear.
  void Scale(double factor);

  // The bytes that the ranks have reduced since Clear.
  std::int64_t bytes() const { return bytes_; }

 private:
  // A unit whose sum over the ranks is on its way.
  struct Pending {
    std::size_t unit = 0;
    at::Tensor whole, sum;
    std::unique_ptr<Work> work;
  };

  // The gradient of a parameter in this round.
  at::Tensor& Of(std::size_t unit, std::size_t index);
  void Allocate(std::size_t unit);
  void AllocatePart(std::size_t unit);
  void TakeSum();

  const std::vector<ParameterUnit> units_;
  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::vector<at::Tensor>> views_;  // by unit, of this round; empty without a gradient
  std::vector<at::Tensor> whole_;               // by unit, likewise
  std::vector<at::Tensor> parts_;               // by unit, undefined without a gradient since Clear
  std::deque<Pending> pending_;
  std::int64_t bytes_ = 0;
};

}  // namespace buttress
