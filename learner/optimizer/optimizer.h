// AdamW and its learning rate. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "learner/optimizer/adamw_kernel.h"
#include "lib/config/run_config.h"
#include "lib/policy/weights/parameter_unit.h"

namespace buttress {

// Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101, Algorithm 2.
// Weight decay applies to matrices only. The arithmetic is in float32 whatever is stored: float32
// parameters with their moments; bfloat16 parameters that are rounded copies of float32 masters
// (fp32_master); or bfloat16 parameters and moments, rounded stochastically (stochastic). Not
// thread-safe.
struct AdamWOptions {
  bool of_parts = false;  // the state is of ParameterUnit::part only
  Offload offload = Offload::kNone;
  std::string folder = {};  // for Offload::kDisk
};

class AdamW {
 public:
  // `seed` keys stochastic rounding. Throws StatusError if a file of the state cannot be made.
  AdamW(const std::vector<ParameterUnit>& units, const OptimConfig& optim, std::uint64_t seed,
        AdamWOptions options = {});

  // Makes one update: BeginStep, and Update of each trainable unit with its float32 gradient, which
  // has the size of what is updated: the unit, or the part.
  void BeginStep() { ++steps_; }

  void Update(std::size_t unit, const at::Tensor& gradient, double learning_rate);

  // The number of updates so far, t of the bias correction.
  std::int64_t steps() const { return steps_; }

  bool of_parts() const { return options_.of_parts; }

  // Everything that an update reads besides parameters, gradients and steps(), by unit:
  // "first.<unit>" and "second.<unit>", the moments, and "master.<unit>" where there are masters.
  // The tensors are those of the optimizer, not copies, and lie as the weights of the unit, or of
  // the part, do.
  const NamedTensors& state() const { return state_; }

  // Continues as after `steps` updates. The caller overwrites parameters and state().
  void Resume(std::int64_t steps) { steps_ = steps; }

 private:
  // What is updated of a unit, and what the optimizer keeps of it. Undefined if it is not
  // trainable.
  struct UnitState {
    std::size_t first_parameter = 0;  // its index in the model
    std::int64_t begin = 0;           // of the first value in the unit
    at::Tensor values;                // [n] the parameters
    at::Tensor master;                // [n] float32, of parameters that are rounded copies
    at::Tensor first, second;         // [n]
  };

  void AddUnit(const ParameterUnit& unit, std::size_t first_parameter);
  // Whether these values and their moments are rounded stochastically: adapters are float32.
  bool IsStochastic(const at::Tensor& values) const;
  at::Tensor ZeroState(const at::Tensor& values) const;
  void UpdateHere(const ParameterUnit& unit, const UnitState& state, const at::Tensor& gradient,
                  double learning_rate) const;
  void UpdateFloat32(const UnitState& unit, const at::Tensor& gradient, std::int64_t begin,
                     std::int64_t end, double decay, double learning_rate) const;
  void UpdateStochastic(const ParameterUnit& unit, const UnitState& state,
                        const at::Tensor& gradient, double learning_rate) const;

  const std::vector<ParameterUnit> units_;
  const OptimConfig optim_;
  const AdamWOptions options_;
  const std::uint64_t seed_;
  const bool stochastic_;
  std::vector<UnitState> states_;
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

// Makes one update, with equal bits on CPUs and GPUs. `index` is that of the first value in its
// parameter. Throws StatusError if the device cannot.
void StochasticAdamWStep(const StochasticAdamWTensors& tensors, const AdamWFactors& factors,
                         RoundingKey key, std::int64_t index = 0);

}  // namespace buttress
