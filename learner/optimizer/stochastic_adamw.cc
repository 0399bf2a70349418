#include "learner/optimizer/stochastic_adamw.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>

#include "lib/base/report/check.h"
#include "lib/base/text/random.h"

namespace buttress {
namespace {

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
