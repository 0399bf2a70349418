#include "learner/optimizer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/base/check.h"

namespace buttress {
namespace {

NamedTensors ZerosLike(const NamedTensors& parameters) {
  NamedTensors zeros;
  zeros.reserve(parameters.size());
  for (const auto& [name, tensor] : parameters) zeros.emplace_back(name, at::zeros_like(tensor));
  return zeros;
}

}  // namespace

AdamW::AdamW(NamedTensors parameters, const OptimConfig& options)
    : options_(options),
      parameters_(std::move(parameters)),
      first_(ZerosLike(parameters_)),
      second_(ZerosLike(parameters_)) {
  BUTTRESS_CHECK(!parameters_.empty(), "AdamW needs at least one parameter");
  steps_ =
      at::zeros({}, parameters_.front().second.options().dtype(at::kFloat).requires_grad(false));
}

void AdamW::Step(double learning_rate) {
  const at::NoGradGuard no_grad;
  steps_.add_(1);
  Update(true, learning_rate);
  Update(false, learning_rate);
}

void AdamW::Update(bool matrices, double learning_rate) {
  std::vector<at::Tensor> parameters, grads, first, second;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if ((parameter.dim() >= 2) != matrices) continue;
    BUTTRESS_CHECK(parameter.grad().defined(), parameters_[i].first + " has no gradient");
    parameters.push_back(parameter);
    grads.push_back(parameter.grad());
    first.push_back(first_[i].second);
    second.push_back(second_[i].second);
  }
  if (parameters.empty()) return;
  const std::vector<at::Tensor> steps(parameters.size(), steps_);
  at::_fused_adamw_(parameters, grads, first, second, {}, steps, learning_rate, options_.beta1,
                    options_.beta2, matrices ? options_.weight_decay : 0.0, options_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
}

std::int64_t AdamW::steps() const { return static_cast<std::int64_t>(steps_.item<float>()); }

void AdamW::Resume(std::int64_t steps) { steps_.fill_(static_cast<double>(steps)); }

double LearningRate(const OptimConfig& options, std::int64_t step, std::int64_t total_steps) {
  if (step < options.warmup_steps)
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  if (options.schedule == LrSchedule::kConstant) return options.lr;
  const auto falling_steps =
      static_cast<double>(std::max<std::int64_t>(1, total_steps - options.warmup_steps));
  const double done =
      std::clamp(static_cast<double>(step - options.warmup_steps) / falling_steps, 0.0, 1.0);
  const double left = options.schedule == LrSchedule::kLinear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.lr * (options.min_lr_ratio + (1 - options.min_lr_ratio) * left);
}

}  // namespace buttress
