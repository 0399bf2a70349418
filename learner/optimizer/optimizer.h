// AdamW and its learning rate. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "learner/optimizer/adamw_kernel.h"
#include "learner/step/grad_reducer.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101, Algorithm 2.
// Weight decay applies to matrices only. The arithmetic is in float32 whatever is stored: float32
// parameters with their moments; bfloat16 parameters that are rounded copies of float32 masters
// (fp32_master); or bfloat16 parameters and moments, rounded stochastically (stochastic). Not
// thread-safe.
class AdamW {
 public:
  // `seed` keys stochastic rounding.
  AdamW(const std::vector<ParameterUnit>& units, const OptimConfig& options, std::uint64_t seed);

  // Makes one update, unit by unit. REQUIRES: one float32 gradient for each parameter, unit after
  // unit.
  void Step(const std::vector<at::Tensor>& gradients, double learning_rate);

  // The number of updates so far, t of the bias correction.
  std::int64_t steps() const { return steps_; }

  // Everything that an update reads besides parameters, gradients and steps(): "first.<name>" and
  // "second.<name>", the moments, and "master.<name>" where there are masters. The tensors are
  // those of the optimizer, not copies.
  const NamedTensors& state() const { return state_; }

  // Continues as after `steps` updates. The caller overwrites parameters and state().
  void Resume(std::int64_t steps) { steps_ = steps; }

 private:
  // The parameters of a unit, and one buffer for each value that the optimizer keeps of them.
  struct UnitState {
    NamedTensors parameters;
    std::vector<at::Tensor> masters;  // the parameters themselves if they are float32
    UnitBuffer first, second;
  };

  void AddUnit(const ParameterUnit& unit);
  void UpdateFloat32(const UnitState& unit, const at::Tensor* gradients, bool matrices,
                     double learning_rate) const;
  void UpdateStochastic(const UnitState& unit, const at::Tensor* gradients, std::int64_t index,
                        double learning_rate) const;

  const OptimConfig options_;
  const std::uint64_t seed_;
  const bool stochastic_;
  std::vector<UnitState> units_;
  std::size_t parameters_ = 0;
  NamedTensors state_;
  std::int64_t steps_ = 0;
};

// Returns the learning rate of the update that completes `steps` of total_steps steps, a number
// with a fraction where a step makes several updates. It is lr * steps / warmup_steps while warming
// up. Afterwards it is constant, or falls from lr to lr * min_lr_ratio at total_steps along a
// straight line or half a cosine. Pure.
double LearningRate(const OptimConfig& options, double steps, std::int64_t total_steps);

// The rounding key of update `step` of parameter `parameter`, so that an update gives the same bits
// after a resume and on any number of ranks. Pure.
RoundingKey RoundingKeyOf(std::uint64_t seed, std::int64_t step, std::int64_t parameter);

// AdamW with bfloat16 parameters and moments. Rounding to nearest would lose an update that is
// smaller than half the distance to the next bfloat16, which at the learning rates of RL is nearly
// all of them, and a second moment would never decay. Stochastic rounding keeps both in expectation
// (Gupta et al., "Deep learning with limited numerical precision", arXiv 1502.02551, section 3).
// One contiguous tensor each; the gradient is float32, the others are bfloat16.
struct StochasticAdamWTensors {
  at::Tensor gradient;
  at::Tensor parameter;
  at::Tensor first;   // moment
  at::Tensor second;  // moment
};

// Makes one update, on CPUs with the kernel and elsewhere with StochasticAdamWByOperators.
void StochasticAdamWStep(const StochasticAdamWTensors& tensors, const AdamWFactors& factors,
                         RoundingKey key);

// The same update by LibTorch's operators, for any device. Uses the same random bits as the kernel.
void StochasticAdamWByOperators(const StochasticAdamWTensors& tensors, const AdamWFactors& factors,
                                RoundingKey key);

}  // namespace buttress
