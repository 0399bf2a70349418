#include "learner/optimizer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "learner/stochastic_adamw.h"
#include "lib/base/check.h"

namespace buttress {
namespace {

bool IsMatrix(const at::Tensor& parameter) { return parameter.dim() >= 2; }

}  // namespace

AdamW::AdamW(NamedTensors parameters, const OptimConfig& options, std::uint64_t seed)
    : options_(options),
      seed_(seed),
      parameters_(std::move(parameters)),
      stochastic_(!parameters_.empty() && options.precision == OptimPrecision::kStochastic &&
                  parameters_.front().second.scalar_type() == at::kBFloat16) {
  BUTTRESS_CHECK(!parameters_.empty(), "AdamW needs at least one parameter");
  const at::ScalarType type = stochastic_ ? at::kBFloat16 : at::kFloat;
  for (const auto& [name, parameter] : parameters_) {
    first_.push_back(at::zeros_like(parameter.detach(), type));
    second_.push_back(at::zeros_like(parameter.detach(), type));
    state_.emplace_back("first." + name, first_.back());
    state_.emplace_back("second." + name, second_.back());
    if (stochastic_) continue;
    masters_.push_back(parameter.detach().to(at::kFloat));  // no copy of float32
    if (parameter.scalar_type() != at::kFloat)
      state_.emplace_back("master." + name, masters_.back());
  }
}

void AdamW::Step(const std::vector<at::Tensor>& gradients, double learning_rate) {
  BUTTRESS_CHECK(gradients.size() == parameters_.size(), "one gradient for each parameter");
  const at::NoGradGuard no_grad;
  ++steps_;
  if (stochastic_) return UpdateStochastic(gradients, learning_rate);
  UpdateFloat32(gradients, true, learning_rate);
  UpdateFloat32(gradients, false, learning_rate);
}

// The fused kernels of LibTorch, and the bfloat16 copies of what they updated.
void AdamW::UpdateFloat32(const std::vector<at::Tensor>& gradients, bool matrices,
                          double learning_rate) {
  std::vector<at::Tensor> masters, grads, first, second;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (IsMatrix(parameters_[i].second) != matrices) continue;
    masters.push_back(masters_[i]);
    grads.push_back(gradients[i]);
    first.push_back(first_[i]);
    second.push_back(second_[i]);
  }
  if (masters.empty()) return;
  // float32, as the kernels require; exact up to 2^24.
  const at::Tensor step = at::full({}, static_cast<double>(steps_), masters.front().options());
  const std::vector<at::Tensor> steps(masters.size(), step);
  at::_fused_adamw_(masters, grads, first, second, {}, steps, learning_rate, options_.beta1,
                    options_.beta2, matrices ? options_.weight_decay : 0.0, options_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (IsMatrix(parameter) == matrices && parameter.scalar_type() != at::kFloat)
      parameter.copy_(masters_[i]);
  }
}

void AdamW::UpdateStochastic(const std::vector<at::Tensor>& gradients, double learning_rate) {
  const auto t = static_cast<double>(steps_);
  AdamWFactors factors;
  factors.step_size = static_cast<float>(learning_rate / (1 - std::pow(options_.beta1, t)));
  factors.beta1 = static_cast<float>(options_.beta1);
  factors.beta2 = static_cast<float>(options_.beta2);
  factors.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
  factors.eps = static_cast<float>(options_.eps);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    const double decay = IsMatrix(parameter) ? options_.weight_decay : 0.0;
    factors.keep = static_cast<float>(1 - learning_rate * decay);
    StochasticAdamWStep({gradients[i], parameter.detach(), first_[i], second_[i]}, factors,
                        RoundingKeyOf(seed_, steps_, static_cast<std::int64_t>(i)));
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
