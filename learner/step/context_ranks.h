// The context groups of a job (lib/policy/context_group.h): c neighbouring ranks each, which run
// the same micro-batches together, so that a group is to the placement what a rank is without.
// Torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/policy/context_group.h"

namespace buttress {

class ContextRanks final : public ContextGroup {
 public:
  // Divides the ranks into groups of `size`; returns null for 1. Every rank calls it. `control`
  // carries bytes on the CPU, `tensors` what is on the device of the model; they may be the same.
  // REQUIRES: CheckContext.
  static Result<std::unique_ptr<ContextRanks>> Form(std::int64_t size, Collective& control,
                                                    Collective& tensors,
                                                    std::chrono::milliseconds timeout);

  int rank() const override { return ranks_->rank(); }

  int size() const override { return ranks_->size(); }

  at::Tensor AllToAll(const at::Tensor& parts) override;
  at::Tensor AllGather(const at::Tensor& own) override;

  // One rank of each group, on the CPU: what all ranks of a group know is counted once in a sum
  // over it.
  Collective& across() { return *across_; }

  // The last call (Collective::End).
  Status End() { return ranks_->End(); }

 private:
  ContextRanks(std::unique_ptr<Collective> ranks, std::unique_ptr<Collective> across,
               std::chrono::milliseconds timeout);

  const std::unique_ptr<Collective> ranks_;  // of this group, on the device of the model
  const std::unique_ptr<Collective> across_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace buttress
