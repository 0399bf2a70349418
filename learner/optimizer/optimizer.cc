#include "learner/optimizer/optimizer.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/base/report/check.h"
#include "lib/base/text/random.h"

namespace buttress {
namespace {

bool IsMatrix(const at::Tensor& parameter) { return parameter.dim() >= 2; }

// Values at a time; bounds the temporary tensors of an update by operators.
constexpr std::int64_t kUpdateChunk = std::int64_t{1} << 22;
constexpr std::int64_t kGrain = 32768;

// Mix of adamw_kernel.cc for values below 2^32 in int64, where a product wraps around but keeps its
// lower 32 bits.
at::Tensor Mix(const at::Tensor& x) {
  constexpr std::int64_t kLow = 0xFFFFFFFF;
  at::Tensor y =
      x.bitwise_xor(x.bitwise_right_shift(16)).mul_(std::int64_t{0x85EBCA6B}).bitwise_and_(kLow);
  y = y.bitwise_xor(y.bitwise_right_shift(13)).mul_(std::int64_t{0xC2B2AE35}).bitwise_and_(kLow);
  return y.bitwise_xor(y.bitwise_right_shift(16));
}

void StoreRounded(const at::Tensor& to, const at::Tensor& value, const at::Tensor& random) {
  const at::Tensor bits = value.view(at::kInt).add(random.bitwise_and(0xFFFF).to(at::kInt));
  to.copy_(bits.bitwise_and_(-0x10000).view(at::kFloat));  // exact: the cut bits are 0
}

void UpdateChunk(const StochasticAdamWTensors& t, std::int64_t index, const AdamWFactors& f,
                 RoundingKey key) {
  const std::int64_t count = t.parameter.numel();
  const at::Tensor indices =
      at::arange(index, index + count, t.parameter.options().dtype(at::kLong))
          .bitwise_and_(std::int64_t{0xFFFFFFFF});
  const at::Tensor random = Mix(indices.bitwise_xor_(static_cast<std::int64_t>(key.first)));
  const at::Tensor more = Mix(random.bitwise_xor(static_cast<std::int64_t>(key.second)));
  const at::Tensor m = t.first.to(at::kFloat).mul_(f.beta1).add_(t.gradient, 1 - f.beta1);
  const at::Tensor v =
      t.second.to(at::kFloat).mul_(f.beta2).addcmul_(t.gradient, t.gradient, 1 - f.beta2);
  const at::Tensor p = t.parameter.to(at::kFloat)
                           .mul_(f.keep)
                           .addcdiv_(m, v.sqrt().mul_(f.root_scale).add_(f.eps), -f.step_size);
  StoreRounded(t.parameter, p, random);
  StoreRounded(t.first, m, random.bitwise_right_shift(16));
  StoreRounded(t.second, v, more);
}

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

RoundingKey RoundingKeyOf(std::uint64_t seed, std::int64_t step, std::int64_t parameter) {
  const std::uint64_t update =
      MixSeed(MixSeed(seed, HashText("stochastic rounding")), static_cast<std::uint64_t>(step));
  const std::uint64_t key = MixSeed(update, static_cast<std::uint64_t>(parameter));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void StochasticAdamWStep(const StochasticAdamWTensors& t, const AdamWFactors& factors,
                         RoundingKey key) {
  if (!t.parameter.is_cpu()) return StochasticAdamWByOperators(t, factors, key);
  for (const at::Tensor* tensor : {&t.gradient, &t.parameter, &t.first, &t.second})
    BUTTRESS_CHECK(tensor->is_contiguous(), "AdamW updates contiguous tensors");
  const float* gradient = t.gradient.const_data_ptr<float>();
  const auto bits = [](const at::Tensor& x) { return static_cast<Bf16*>(x.mutable_data_ptr()); };
  Bf16* const parameter = bits(t.parameter);
  Bf16* const first = bits(t.first);
  Bf16* const second = bits(t.second);
  at::parallel_for(0, t.parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    StochasticAdamWRange(gradient + begin, parameter + begin, first + begin, second + begin,
                         static_cast<std::uint64_t>(begin), end - begin, factors, key);
  });
}

void StochasticAdamWByOperators(const StochasticAdamWTensors& t, const AdamWFactors& factors,
                                RoundingKey key) {
  const std::int64_t total = t.parameter.numel();
  for (std::int64_t begin = 0; begin < total; begin += kUpdateChunk) {
    const std::int64_t count = std::min(kUpdateChunk, total - begin);
    const auto part = [&](const at::Tensor& x) { return x.view(-1).narrow(0, begin, count); };
    UpdateChunk({part(t.gradient), part(t.parameter), part(t.first), part(t.second)}, begin,
                factors, key);
  }
}

}  // namespace buttress
