// What the ranks divide under a stage of local.learner.zero (Rajbhandari et al., "ZeRO", arXiv
// 1910.02054), and how a rank gets what it does not hold. Torch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "learner/step/grad_reducer.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/sections/local_config.h"
#include "lib/policy/layers/mlp.h"
#include "lib/policy/transformer.h"

namespace buttress {

// The share of a rank in the model. Experts are divided only with the weights (stage 3).
UnitShare ShareOf(const Collective& collective, ZeroStage stage, bool expert_parallel = false);

// Whether each rank has a part of the optimizer state. With one rank, the part is all of it.
inline bool DividesOptimizer(ZeroStage stage) { return stage != ZeroStage::k0; }

// Gathers the units of a model of which each rank holds a part (stage 3), and exchanges the rows of
// experts that stay divided. Collectives run on the device's stream; the host waits only where the
// back end has no streams. Not thread-safe.
class ShardedUnits final : public UnitGatherer, public ExpertPeers {
 public:
  // The arguments must outlive the object.
  ShardedUnits(const std::vector<ParameterUnit>& units, Collective& collective,
               std::chrono::milliseconds timeout);

  void Gather(std::size_t unit) override;
  void Release(std::size_t unit) override;
  void Prefetch(std::size_t unit) override;

  int rank() const override { return collective_.rank(); }

  int ranks() const override { return collective_.size(); }

  void Exchange(const at::Tensor& in, const std::vector<std::int64_t>& sent, const at::Tensor& out,
                const std::vector<std::int64_t>& received) override;

 private:
  struct Entry {
    bool has_memory = false;
    int holds = 0;
    std::unique_ptr<Work> work;  // a gather that nobody has waited for
  };

  const std::vector<ParameterUnit>& units_;
  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  std::vector<Entry> entries_;
};

// Gives `model` its ShardedUnits where its share is of weights; else returns null.
std::unique_ptr<ShardedUnits> ShardModel(Transformer& model, Collective& collective,
                                         std::chrono::milliseconds timeout);

// Makes one update of the model with the gradients of `reducer`, on all ranks. Below stage 3, all
// ranks hold the new weights afterwards: each makes the whole update (stage 0), or its part, which
// is then shared.
Status UpdateModel(const Transformer& model, const GradReducer& reducer, AdamW& optimizer,
                   double learning_rate, Collective& collective, std::chrono::milliseconds timeout);

}  // namespace buttress
