#include "learner/optimizer/optimizer.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

nlohmann::json Golden() {
  const auto text = ReadFile(BUTTRESS_GOLDEN_DIR "/adamw.json");
  return nlohmann::json::parse(text.ok() ? *text : "null");
}

OptimConfig ConfigOf(const nlohmann::json& golden) {
  OptimConfig config;
  config.beta1 = golden["beta1"];
  config.beta2 = golden["beta2"];
  config.eps = golden["eps"];
  config.weight_decay = golden["weight_decay"];
  return config;
}

void ExpectNear(const at::Tensor& tensor, const nlohmann::json& golden, double bound) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double expected = golden[static_cast<std::size_t>(i)];
    EXPECT_NEAR(flat[i].item<double>(), expected, bound * (1 + std::abs(expected))) << i;
  }
}

// Parameters as make_adamw.py starts them.
NamedTensors StartParameters(at::ScalarType dtype) {
  return {{"matrix",
           torch::tensor({{0.5, -1.0, 2.0}, {0.25, 0.0, -0.125}}).to(dtype).requires_grad_(true)},
          {"vector", torch::tensor({1.0, -2.0, 3.0}).to(dtype).requires_grad_(true)}};
}

void RunGolden(AdamW& optimizer, const NamedTensors& parameters, const nlohmann::json& golden) {
  for (const auto& row : golden["gradients"]) {
    const auto numbers = row.get<std::vector<double>>();
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : parameters) {
      const at::Tensor all = torch::tensor(numbers, at::kDouble).narrow(0, 0, tensor.numel());
      gradients.push_back(all.to(at::kFloat).view(tensor.sizes()));
    }
    optimizer.Step(gradients, golden["lr"]);
  }
}

at::Tensor StateOf(const AdamW& optimizer, const std::string& name) {
  for (const auto& [key, tensor] : optimizer.state()) {
    if (key == name) return tensor;
  }
  ADD_FAILURE() << "no " << name;
  return at::zeros({0});
}

TEST(AdamWTest, FollowsThePaperInFloat32AndDecaysMatricesOnly) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const NamedTensors parameters = StartParameters(at::kFloat);
  AdamW optimizer({{"unit", parameters}}, ConfigOf(golden), 1);
  RunGolden(optimizer, parameters, golden);
  EXPECT_EQ(optimizer.steps(), 5);
  ExpectNear(parameters[0].second, golden["matrix"]["values"], 2e-6);
  ExpectNear(parameters[1].second, golden["vector"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, "first.matrix"), golden["matrix"]["first"], 1e-6);
  ExpectNear(StateOf(optimizer, "second.matrix"), golden["matrix"]["second"], 1e-6);
  EXPECT_EQ(optimizer.state().size(), 4u);  // no masters
}

TEST(AdamWTest, MastersFollowThePaperAndParametersAreTheirRoundedCopies) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const NamedTensors parameters = StartParameters(at::kBFloat16);
  AdamW optimizer({{"unit", parameters}}, ConfigOf(golden), 1);
  RunGolden(optimizer, parameters, golden);
  ExpectNear(StateOf(optimizer, "master.matrix"), golden["matrix"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, "master.vector"), golden["vector"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, "second.vector"), golden["vector"]["second"], 1e-6);
  for (const auto& [name, tensor] : parameters)
    EXPECT_TRUE(at::equal(tensor, StateOf(optimizer, "master." + name).to(at::kBFloat16))) << name;
}

TEST(AdamWTest, StochasticRoundingStaysWithinTheStepsOfBFloat16) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  OptimConfig config = ConfigOf(golden);
  config.precision = OptimPrecision::kStochastic;
  const NamedTensors parameters = StartParameters(at::kBFloat16);
  AdamW optimizer({{"unit", parameters}}, config, 1);
  RunGolden(optimizer, parameters, golden);
  EXPECT_EQ(StateOf(optimizer, "second.vector").scalar_type(), at::kBFloat16);
  EXPECT_EQ(optimizer.state().size(), 4u);
  ExpectNear(parameters[0].second, golden["matrix"]["values"], 0.03);  // five steps of 2^-7
  ExpectNear(parameters[1].second, golden["vector"]["values"], 0.03);
}

// 100 updates at a learning rate of RL. Returns what they changed.
at::Tensor ChangeAfterUpdates(at::ScalarType dtype, OptimPrecision precision) {
  torch::manual_seed(3);
  constexpr std::int64_t kValues = 1 << 18;
  const at::Tensor start = (at::randn({kValues}) * 0.02).to(at::kBFloat16);
  const at::Tensor direction = at::randn({kValues});
  const NamedTensors parameters = {{"w", start.to(dtype, false, /*copy=*/true)}};
  OptimConfig config;
  config.precision = precision;
  AdamW optimizer({{"unit", parameters}}, config, 1);
  for (int i = 0; i < 100; ++i) optimizer.Step({(direction + at::randn({kValues})) * 1e-3}, 1e-6);
  const bool masters = dtype != at::kFloat && precision == OptimPrecision::kFp32Master;
  const at::Tensor& end = masters ? StateOf(optimizer, "master.w") : parameters[0].second;
  return end.to(at::kDouble) - start.to(at::kDouble);
}

TEST(AdamWTest, BFloat16WeightsMoveAsFloat32OnesDoAtTheLearningRatesOfRl) {
  const at::Tensor exact = ChangeAfterUpdates(at::kFloat, OptimPrecision::kFp32Master);
  const auto share_of = [&](const at::Tensor& change) {
    return (change.dot(exact) / exact.dot(exact)).item<double>();
  };
  const auto cosine_of = [&](const at::Tensor& change) {
    return (change.dot(exact) / (exact.norm() * change.norm())).item<double>();
  };
  const at::Tensor master = ChangeAfterUpdates(at::kBFloat16, OptimPrecision::kFp32Master);
  EXPECT_TRUE(at::equal(master, exact));
  const at::Tensor stochastic = ChangeAfterUpdates(at::kBFloat16, OptimPrecision::kStochastic);
  RecordProperty("share", std::to_string(share_of(stochastic)));
  RecordProperty("cosine", std::to_string(cosine_of(stochastic)));
  EXPECT_NEAR(share_of(stochastic), 1, 0.02);
  EXPECT_GT(cosine_of(stochastic), 0.5);  // the rest is the noise of rounding
}

TEST(AdamWTest, TheSecondMomentDecaysWithoutGradients) {
  for (const auto precision : {OptimPrecision::kFp32Master, OptimPrecision::kStochastic}) {
    const NamedTensors parameters = {{"w", at::zeros({4096}, at::kBFloat16)}};
    OptimConfig config;
    config.beta2 = 0.999;
    config.precision = precision;
    AdamW optimizer({{"unit", parameters}}, config, 1);
    StateOf(optimizer, "second.w").fill_(1e-6);
    for (int i = 0; i < 2000; ++i) optimizer.Step({at::zeros({4096})}, 0);
    const double left = StateOf(optimizer, "second.w").to(at::kDouble).mean().item<double>() / 1e-6;
    EXPECT_NEAR(left, std::pow(0.999, 2000), 0.005) << ChoiceName(precision);
  }
}

// The keys of stochastic rounding are those of the parameters in the model, not in their unit.
TEST(AdamWTest, UnitsDoNotChangeAnUpdate) {
  for (const auto precision : {OptimPrecision::kFp32Master, OptimPrecision::kStochastic}) {
    OptimConfig config;
    config.precision = precision;
    std::vector<at::Tensor> results;
    for (const bool several : {false, true}) {
      NamedTensors parameters = StartParameters(at::kBFloat16);
      std::vector<ParameterUnit> units = {{"all", parameters}};
      if (several) units = {{"first", {parameters[0]}}, {"second", {parameters[1]}}};
      AdamW optimizer(units, config, 1);
      for (int i = 0; i < 20; ++i) optimizer.Step({at::ones({2, 3}), -at::ones({3})}, 1e-3);
      results.push_back(at::cat({parameters[0].second.flatten(), parameters[1].second}));
    }
    EXPECT_TRUE(at::equal(results[0], results[1])) << ChoiceName(precision);
    EXPECT_FALSE(at::equal(results[0], at::cat({StartParameters(at::kBFloat16)[0].second.flatten(),
                                                StartParameters(at::kBFloat16)[1].second})));
  }
}

TEST(ScheduleTest, WarmsUpThenFalls) {
  OptimConfig config;
  config.lr = 1.0;
  config.warmup_steps = 4;
  config.min_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 1, 14), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(config, 0.5, 14), 0.125);  // the second of four updates of step 1
  EXPECT_DOUBLE_EQ(LearningRate(config, 4, 14), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 14, 14), 1.0);
  config.schedule = LrSchedule::kLinear;
  EXPECT_DOUBLE_EQ(LearningRate(config, 9, 14), 0.55);  // half way from 1 to 0.1
  EXPECT_DOUBLE_EQ(LearningRate(config, 14, 14), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 100, 14), 0.1);
  config.schedule = LrSchedule::kCosine;
  EXPECT_DOUBLE_EQ(LearningRate(config, 9, 14), 0.55);
  EXPECT_GT(LearningRate(config, 6, 14), 0.9);
}

}  // namespace
}  // namespace buttress
