#include "learner/optimizer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "learner/grad_reducer.h"
#include "lib/base/file.h"
#include "lib/collectives/collective.h"

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
    for (const auto& [name, tensor] : parameters) {
      const at::Tensor all = torch::tensor(numbers, at::kDouble).narrow(0, 0, tensor.numel());
      at::Tensor(tensor).mutable_grad() = all.to(tensor.scalar_type()).view(tensor.sizes());
    }
    optimizer.Step(golden["lr"]);
  }
}

TEST(AdamWTest, FollowsThePaperInFloat32AndDecaysMatricesOnly) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const NamedTensors parameters = StartParameters(at::kFloat);
  AdamW optimizer(parameters, ConfigOf(golden));
  RunGolden(optimizer, parameters, golden);
  EXPECT_EQ(optimizer.steps(), 5);
  ExpectNear(parameters[0].second, golden["matrix"]["values"], 2e-6);
  ExpectNear(parameters[1].second, golden["vector"]["values"], 2e-6);
  ExpectNear(optimizer.first_moments()[0].second, golden["matrix"]["first"], 1e-6);
  ExpectNear(optimizer.second_moments()[0].second, golden["matrix"]["second"], 1e-6);
}

TEST(AdamWTest, PureBFloat16StaysWithinItsRounding) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const NamedTensors parameters = StartParameters(at::kBFloat16);
  AdamW optimizer(parameters, ConfigOf(golden));
  RunGolden(optimizer, parameters, golden);
  EXPECT_EQ(optimizer.second_moments()[0].second.scalar_type(), at::kBFloat16);
  ExpectNear(parameters[0].second, golden["matrix"]["values"],
             0.02);  // five steps of 2^-8 relative
  ExpectNear(parameters[1].second, golden["vector"]["values"], 0.02);
}

TEST(GradReducerTest, GradientsAreViewsOfBucketsAndTheNormCoversAllOfThem) {
  const NamedTensors parameters = StartParameters(at::kFloat);
  const auto group = MakeLocalCollective();
  GradReducer reducer(parameters, *group, std::chrono::seconds(1));
  (parameters[0].second.sum() * 2 + parameters[1].second.sum() * 3).backward();
  (parameters[1].second.sum()).backward();
  ASSERT_TRUE(reducer.Reduce().ok());
  EXPECT_NEAR(reducer.Norm(), std::sqrt(6 * 4.0 + 3 * 16.0), 1e-5);
  reducer.Scale(0.5);
  EXPECT_EQ(parameters[1].second.grad()[0].item<float>(), 2);  // (3 + 1) / 2
  reducer.Zero();
  EXPECT_EQ(reducer.Norm(), 0);
  EXPECT_EQ(reducer.bytes(), 9 * 4);
}

TEST(ScheduleTest, WarmsUpThenFalls) {
  OptimConfig config;
  config.lr = 1.0;
  config.warmup_steps = 4;
  config.min_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 1, 14), 0.25);
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
