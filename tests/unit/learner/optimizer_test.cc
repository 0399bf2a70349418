#include "learner/optimizer/optimizer.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/policy/exception_status.h"
#include "tests/support/temp_dir.h"

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

// Makes an update with the gradients of the parameters of `units`, one after another.
void Step(AdamW& optimizer, const std::vector<ParameterUnit>& units,
          const std::vector<at::Tensor>& gradients, double learning_rate) {
  optimizer.BeginStep();
  std::size_t next = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const at::Tensor flat = at::zeros({units[u].size()});
    for (const at::Tensor& view : ViewsOf(units[u], flat)) view.copy_(gradients[next++]);
    optimizer.Update(u, flat, learning_rate);
  }
}

void RunGolden(AdamW& optimizer, const ParameterUnit& unit, const nlohmann::json& golden) {
  for (const auto& row : golden["gradients"]) {
    const auto numbers = row.get<std::vector<double>>();
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : unit.parameters) {
      const at::Tensor all = torch::tensor(numbers, at::kDouble).narrow(0, 0, tensor.numel());
      gradients.push_back(all.to(at::kFloat).view(tensor.sizes()));
    }
    Step(optimizer, {unit}, gradients, golden["lr"]);
  }
}

// The state of parameter `index` of the unit, `kind` "first", "second" or "master".
at::Tensor StateOf(const AdamW& optimizer, const ParameterUnit& unit, const std::string& kind,
                   std::size_t index) {
  for (const auto& [key, tensor] : optimizer.state()) {
    if (key == kind + "." + unit.name) return ViewsOf(unit, tensor)[index];
  }
  ADD_FAILURE() << "no " << kind;
  return at::zeros({0});
}

TEST(AdamWTest, FollowsThePaperInFloat32AndDecaysMatricesOnly) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const ParameterUnit unit = PackUnit("unit", StartParameters(at::kFloat));
  const NamedTensors& parameters = unit.parameters;
  AdamW optimizer({unit}, ConfigOf(golden), 1);
  RunGolden(optimizer, unit, golden);
  EXPECT_EQ(optimizer.steps(), 5);
  ExpectNear(parameters[0].second, golden["matrix"]["values"], 2e-6);
  ExpectNear(parameters[1].second, golden["vector"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, unit, "first", 0), golden["matrix"]["first"], 1e-6);
  ExpectNear(StateOf(optimizer, unit, "second", 0), golden["matrix"]["second"], 1e-6);
  EXPECT_EQ(optimizer.state().size(), 2u);  // no masters
}

TEST(AdamWTest, MastersFollowThePaperAndParametersAreTheirRoundedCopies) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  const ParameterUnit unit = PackUnit("unit", StartParameters(at::kBFloat16));
  const NamedTensors& parameters = unit.parameters;
  AdamW optimizer({unit}, ConfigOf(golden), 1);
  RunGolden(optimizer, unit, golden);
  ExpectNear(StateOf(optimizer, unit, "master", 0), golden["matrix"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, unit, "master", 1), golden["vector"]["values"], 2e-6);
  ExpectNear(StateOf(optimizer, unit, "second", 1), golden["vector"]["second"], 1e-6);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(
        at::equal(parameters[i].second, StateOf(optimizer, unit, "master", i).to(at::kBFloat16)));
}

TEST(AdamWTest, StochasticRoundingStaysWithinTheStepsOfBFloat16) {
  const auto golden = Golden();
  ASSERT_TRUE(golden.is_object());
  OptimConfig config = ConfigOf(golden);
  config.precision = OptimPrecision::kStochastic;
  const ParameterUnit unit = PackUnit("unit", StartParameters(at::kBFloat16));
  const NamedTensors& parameters = unit.parameters;
  AdamW optimizer({unit}, config, 1);
  RunGolden(optimizer, unit, golden);
  EXPECT_EQ(StateOf(optimizer, unit, "second", 1).scalar_type(), at::kBFloat16);
  EXPECT_EQ(optimizer.state().size(), 2u);
  ExpectNear(parameters[0].second, golden["matrix"]["values"], 0.03);  // five steps of 2^-7
  ExpectNear(parameters[1].second, golden["vector"]["values"], 0.03);
}

// 100 updates at a learning rate of RL. Returns what they changed.
at::Tensor ChangeAfterUpdates(at::ScalarType dtype, OptimPrecision precision) {
  torch::manual_seed(3);
  constexpr std::int64_t kValues = 1 << 18;
  const at::Tensor start = (at::randn({kValues}) * 0.02).to(at::kBFloat16);
  const at::Tensor direction = at::randn({kValues});
  const ParameterUnit unit = PackUnit("unit", {{"w", start.to(dtype)}});
  OptimConfig config;
  config.precision = precision;
  AdamW optimizer({unit}, config, 1);
  for (int i = 0; i < 100; ++i)
    Step(optimizer, {unit}, {(direction + at::randn({kValues})) * 1e-3}, 1e-6);
  const bool masters = dtype != at::kFloat && precision == OptimPrecision::kFp32Master;
  const at::Tensor end =
      masters ? StateOf(optimizer, unit, "master", 0) : unit.parameters[0].second.detach();
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
    const ParameterUnit unit = PackUnit("unit", {{"w", at::zeros({4096}, at::kBFloat16)}});
    OptimConfig config;
    config.beta2 = 0.999;
    config.precision = precision;
    AdamW optimizer({unit}, config, 1);
    StateOf(optimizer, unit, "second", 0).fill_(1e-6);
    for (int i = 0; i < 2000; ++i) Step(optimizer, {unit}, {at::zeros({4096})}, 0);
    const double left =
        StateOf(optimizer, unit, "second", 0).to(at::kDouble).mean().item<double>() / 1e-6;
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
      const NamedTensors start = StartParameters(at::kBFloat16);
      std::vector<ParameterUnit> units = {PackUnit("all", start)};
      if (several) units = {PackUnit("first", {start[0]}), PackUnit("second", {start[1]})};
      AdamW optimizer(units, config, 1);
      for (int i = 0; i < 20; ++i) Step(optimizer, units, {at::ones({2, 3}), -at::ones({3})}, 1e-3);
      results.push_back(at::cat({units.front().parameters.front().second.flatten(),
                                 units.back().parameters.back().second}));
    }
    EXPECT_TRUE(at::equal(results[0], results[1])) << ChoiceName(precision);
    EXPECT_FALSE(at::equal(results[0], at::cat({StartParameters(at::kBFloat16)[0].second.flatten(),
                                                StartParameters(at::kBFloat16)[1].second})));
  }
}

// A part begins and ends inside of parameters.
TEST(AdamWTest, PartsOfRanksGetTheBitsOfTheWholeUpdate) {
  torch::manual_seed(5);
  const NamedTensors start = {{"a", at::randn({33, 17}, at::kBFloat16)},
                              {"b", at::randn({70}, at::kBFloat16)},
                              {"c", at::randn({40, 21}, at::kBFloat16)}};
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto precision : {OptimPrecision::kFp32Master, OptimPrecision::kStochastic}) {
      NamedTensors values;
      for (const auto& [name, tensor] : start) values.emplace_back(name, tensor.to(dtype));
      OptimConfig config;
      config.precision = precision;
      constexpr int kRanks = 3;
      const ParameterUnit whole = PackUnit("unit", values, {.ranks = kRanks});
      AdamW of_all({whole}, config, 1);
      std::vector<ParameterUnit> shares;
      std::vector<AdamW> of_ranks;
      for (int rank = 0; rank < kRanks; ++rank) {
        shares.push_back(PackUnit("unit", values, {.rank = rank, .ranks = kRanks}));
        of_ranks.emplace_back(std::vector{shares.back()}, config, 1,
                              AdamWOptions{.of_parts = true});
      }
      for (int i = 0; i < 5; ++i) {
        const at::Tensor gradient = at::randn({whole.size()});
        of_all.BeginStep();
        of_all.Update(0, gradient, 1e-2);
        for (int rank = 0; rank < kRanks; ++rank) {
          const ParameterUnit& share = shares[static_cast<std::size_t>(rank)];
          AdamW& optimizer = of_ranks[static_cast<std::size_t>(rank)];
          optimizer.BeginStep();
          optimizer.Update(0, gradient.narrow(0, share.part_begin, share.part.numel()), 1e-2);
        }
      }
      for (const ParameterUnit& share : shares) {
        const at::Tensor own = whole.flat.narrow(0, share.part_begin, share.part.numel());
        EXPECT_TRUE(at::equal(share.part, own)) << share.part_begin << ChoiceName(precision);
      }
    }
  }
}

TEST(AdamWTest, StateOnDiskGivesTheSameBitsAndLeavesNoFile) {
  TempDir folder;
  for (const auto precision : {OptimPrecision::kFp32Master, OptimPrecision::kStochastic}) {
    OptimConfig config;
    config.precision = precision;
    std::vector<at::Tensor> results;
    for (const auto offload : {Offload::kNone, Offload::kHost, Offload::kDisk}) {
      const ParameterUnit unit = PackUnit("unit", StartParameters(at::kBFloat16));
      AdamW optimizer({unit}, config, 1, {.offload = offload, .folder = folder.path()});
      for (int i = 0; i < 20; ++i)
        Step(optimizer, {unit}, {at::ones({2, 3}), -at::ones({3})}, 1e-3);
      results.push_back(unit.flat.clone());
    }
    EXPECT_TRUE(at::equal(results[0], results[1])) << ChoiceName(precision);
    EXPECT_TRUE(at::equal(results[0], results[2])) << ChoiceName(precision);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::vector<ParameterUnit> units = {PackUnit("unit", StartParameters(at::kFloat))};
  const auto in_a_file = [&] {
    AdamW(units, OptimConfig(), 1, {.offload = Offload::kDisk, .folder = "/proc/none"});
  };
  EXPECT_THROW(in_a_file(), StatusError);
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
