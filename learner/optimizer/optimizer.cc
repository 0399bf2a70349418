#include "learner/optimizer/optimizer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "learner/optimizer/stochastic_adamw.h"
#include "lib/base/report/check.h"

namespace buttress {
namespace {

bool IsMatrix(const at::Tensor& parameter) { return parameter.dim() >= 2; }

}  // namespace

AdamW::AdamW(const std::vector<ParameterUnit>& units, const OptimConfig& options,
             std::uint64_t seed)
    : options_(options),
      seed_(seed),
      stochastic_(options.precision == OptimPrecision::kStochastic &&
                  units.front().parameters.front().second.scalar_type() == at::kBFloat16) {
  for (const ParameterUnit& unit : units) AddUnit(unit);
}

void AdamW::AddUnit(const ParameterUnit& unit) {
  const at::ScalarType type = stochastic_ ? at::kBFloat16 : at::kFloat;
  UnitState state{unit.parameters, {}, MakeUnitBuffer(unit, type), MakeUnitBuffer(unit, type)};
  const bool copies = !stochastic_ && unit.parameters.front().second.scalar_type() != at::kFloat;
  if (copies) state.masters = MakeUnitBuffer(unit, at::kFloat).views;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const auto& [name, parameter] = unit.parameters[i];
    state_.emplace_back("first." + name, state.first.views[i]);
    state_.emplace_back("second." + name, state.second.views[i]);
    if (copies) {
      state.masters[i].copy_(parameter.detach());
      state_.emplace_back("master." + name, state.masters[i]);
    } else if (!stochastic_) {
      state.masters.push_back(parameter.detach());
    }
  }
  parameters_ += unit.parameters.size();
  units_.push_back(std::move(state));
}

void AdamW::Step(const std::vector<at::Tensor>& gradients, double learning_rate) {
  BUTTRESS_CHECK(gradients.size() == parameters_, "one gradient for each parameter");
  const at::NoGradGuard no_grad;
  ++steps_;
  std::size_t index = 0;
  for (const UnitState& unit : units_) {
    const at::Tensor* const of_unit = gradients.data() + index;
    if (stochastic_) {
      UpdateStochastic(unit, of_unit, static_cast<std::int64_t>(index), learning_rate);
    } else {
      UpdateFloat32(unit, of_unit, true, learning_rate);
      UpdateFloat32(unit, of_unit, false, learning_rate);
    }
    index += unit.parameters.size();
  }
}

// The fused kernels of LibTorch, and the bfloat16 copies of what they updated.
void AdamW::UpdateFloat32(const UnitState& unit, const at::Tensor* gradients, bool matrices,
                          double learning_rate) const {
  std::vector<at::Tensor> masters, grads, first, second;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (IsMatrix(unit.parameters[i].second) != matrices) continue;
    masters.push_back(unit.masters[i]);
    grads.push_back(gradients[i]);
    first.push_back(unit.first.views[i]);
    second.push_back(unit.second.views[i]);
  }
  if (masters.empty()) return;
  // float32, as the kernels require; exact up to 2^24.
  const at::Tensor step = at::full({}, static_cast<double>(steps_), masters.front().options());
  const std::vector<at::Tensor> steps(masters.size(), step);
  at::_fused_adamw_(masters, grads, first, second, {}, steps, learning_rate, options_.beta1,
                    options_.beta2, matrices ? options_.weight_decay : 0.0, options_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const at::Tensor& parameter = unit.parameters[i].second;
    if (IsMatrix(parameter) == matrices && parameter.scalar_type() != at::kFloat)
      parameter.copy_(unit.masters[i]);
  }
}

// `index` is that of the unit's first parameter in the model, which keys the rounding.
void AdamW::UpdateStochastic(const UnitState& unit, const at::Tensor* gradients, std::int64_t index,
                             double learning_rate) const {
  const auto t = static_cast<double>(steps_);
  AdamWFactors factors;
  factors.step_size = static_cast<float>(learning_rate / (1 - std::pow(options_.beta1, t)));
  factors.beta1 = static_cast<float>(options_.beta1);
  factors.beta2 = static_cast<float>(options_.beta2);
  factors.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
  factors.eps = static_cast<float>(options_.eps);
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const at::Tensor& parameter = unit.parameters[i].second;
    const double decay = IsMatrix(parameter) ? options_.weight_decay : 0.0;
    factors.keep = static_cast<float>(1 - learning_rate * decay);
    StochasticAdamWStep(
        {gradients[i], parameter.detach(), unit.first.views[i], unit.second.views[i]}, factors,
        RoundingKeyOf(seed_, steps_, index + static_cast<std::int64_t>(i)));
  }
}

double LearningRate(const OptimConfig& options, double steps, std::int64_t total_steps) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  if (steps < warmup) return options.lr * steps / warmup;
  if (options.schedule == LrSchedule::kConstant) return options.lr;
  const double falling_steps = std::max(1.0, static_cast<double>(total_steps) - warmup);
  const double done = std::clamp((steps - warmup) / falling_steps, 0.0, 1.0);
  const double left = options.schedule == LrSchedule::kLinear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.lr * (options.min_lr_ratio + (1 - options.min_lr_ratio) * left);
}

}  // namespace buttress
