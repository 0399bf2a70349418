#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "learner/optimizer/optimizer.h"
#include "tests/unit/learner/gpu.h"

namespace buttress {
namespace {

constexpr std::int64_t kUpdated = 100003;  // no multiple of a vector, and more than one share

StochasticAdamWTensors DrawTensors() {
  auto generator = at::detail::createCPUGenerator(4);
  const auto normal = [&] { return at::randn({kUpdated}, generator); };
  const at::Tensor gradient = normal() * 1e-3;
  const at::Tensor parameter = (normal() * 0.02).to(at::kBFloat16);
  const at::Tensor first = (normal() * 1e-4).to(at::kBFloat16);
  return {gradient, parameter, first, (at::rand({kUpdated}, generator) * 1e-6).to(at::kBFloat16)};
}

AdamWFactors Factors() {
  AdamWFactors factors;
  factors.keep = 0.999f;
  factors.step_size = 1e-5f;
  factors.beta1 = 0.9f;
  factors.beta2 = 0.99f;
  factors.root_scale = 3;
  factors.eps = 1e-8f;
  return factors;
}

std::vector<at::Tensor> Updated(const StochasticAdamWTensors& t) {
  return {t.parameter, t.first, t.second};
}

// The kernel is vector code for the instruction set of the CPU.
TEST(StochasticAdamWTest, TheKernelGivesTheBitsOfOneValueAtATime) {
  const RoundingKey key = RoundingKeyOf(1, 2, 3);
  const auto kernel = DrawTensors(), single = DrawTensors();
  StochasticAdamWStep(kernel, Factors(), key, 5);
  const auto bits = [](const at::Tensor& x) {
    return static_cast<std::uint16_t*>(x.mutable_data_ptr());
  };
  const AdamWRange range = {single.gradient.const_data_ptr<float>(),
                            bits(single.parameter),
                            bits(single.first),
                            bits(single.second),
                            kUpdated,
                            5,
                            Factors(),
                            key};
  for (std::int64_t i = 0; i < kUpdated; ++i) UpdateStochastically(range, i);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(Updated(kernel)[i], Updated(single)[i])) << i;
}

// The arithmetic in double, between the two bfloat16 values next to its result.
TEST(StochasticAdamWTest, RoundsTheUpdateUpOrDown) {
  const AdamWFactors f = Factors();
  const auto before = DrawTensors(), after = DrawTensors();
  StochasticAdamWStep(after, f, RoundingKeyOf(1, 2, 3));
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const at::Tensor g = wide(before.gradient);
  const at::Tensor m = wide(before.first) * f.beta1 + g * (1 - f.beta1);
  const at::Tensor v = wide(before.second) * f.beta2 + g * g * (1 - f.beta2);
  const at::Tensor p =
      wide(before.parameter) * f.keep - m * f.step_size / (v.sqrt() * f.root_scale + f.eps);
  const std::vector<at::Tensor> exact = {p, m, v};
  for (std::size_t i = 0; i < 3; ++i) {
    const at::Tensor bound = exact[i].abs() / 128 + exact[i].abs().max() * 1e-6;
    const at::Tensor error = (wide(Updated(after)[i]) - exact[i]).abs();
    EXPECT_LE((error / bound).max().item<double>(), 1) << i;
  }
}

class StochasticAdamWGpuTest : public GpuTest {};

TEST_F(StochasticAdamWGpuTest, GivesTheBitsOfTheCpu) {
  const auto on_cpu = DrawTensors(), drawn = DrawTensors();
  const StochasticAdamWTensors on_gpu = {drawn.gradient.to(Gpu()), drawn.parameter.to(Gpu()),
                                         drawn.first.to(Gpu()), drawn.second.to(Gpu())};
  for (const StochasticAdamWTensors& tensors : {on_cpu, on_gpu})
    StochasticAdamWStep(tensors, Factors(), RoundingKeyOf(1, 2, 3), 5);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(Updated(on_cpu)[i], Updated(on_gpu)[i].cpu())) << i;
}

TEST(StochasticAdamWTest, BitsDependOnSeedStepAndParameterAlone) {
  const auto once = [](RoundingKey key, int threads) {
    at::set_num_threads(threads);
    const auto tensors = DrawTensors();
    StochasticAdamWStep(tensors, Factors(), key);
    at::set_num_threads(1);
    return tensors.parameter;
  };
  const at::Tensor reference = once(RoundingKeyOf(1, 2, 3), 1);
  EXPECT_TRUE(at::equal(reference, once(RoundingKeyOf(1, 2, 3), 2)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(9, 2, 3), 1)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(1, 9, 3), 1)));
  EXPECT_FALSE(at::equal(reference, once(RoundingKeyOf(1, 2, 9), 1)));
}

// One value and one update many times over: the mean tells the bias.
TEST(StochasticAdamWTest, RoundingHasNoBias) {
  AdamWFactors factors;
  factors.step_size = 1e-6f;
  factors.eps = 1e-8f;
  const auto values = [](double x) { return at::full({1 << 20}, x, at::kBFloat16); };
  const StochasticAdamWTensors tensors = {at::ones({1 << 20}), values(0.0201), values(0),
                                          values(0)};
  const double start = tensors.parameter[0].item<double>();
  StochasticAdamWStep(tensors, factors, RoundingKeyOf(1, 1, 0));
  const double moved = tensors.parameter.to(at::kDouble).mean().item<double>() - start;
  EXPECT_NEAR(moved, -1e-6, 3e-8);  // the standard error is 1e-8
  const double first = tensors.first.to(at::kDouble).mean().item<double>();
  EXPECT_EQ(first, 1);  // bfloat16 represents it
}

TEST(StochasticAdamWTest, InfinityStaysInfinite) {
  const auto tensors = DrawTensors();
  tensors.second.fill_(std::numeric_limits<double>::infinity());
  StochasticAdamWStep(tensors, Factors(), RoundingKeyOf(1, 1, 1));
  EXPECT_TRUE(at::isinf(tensors.second).all().item<bool>());
}

}  // namespace
}  // namespace buttress
