// Golden vectors of tests/golden/make_advantages.py, and the checks of ComputeAdvantages.
#include "lib/rl/advantage/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/rl/advantage/virtual_samples.h"
#include "tests/unit/rl/advantage/batch.h"

namespace buttress {
namespace {

constexpr double kTolerance = 1e-12;

TestGroups GroupsOf(const nlohmann::json& json) {
  TestGroups groups;
  for (const auto& group : json) {
    auto& out = groups.emplace_back();
    for (const auto& reward : group) {
      out.push_back(reward.is_null() ? std::optional<double>()
                                     : std::optional<double>(reward.get<double>()));
    }
  }
  return groups;
}

// Flattens nested lists over groups and components.
template <class T>
std::vector<T> Flat(const nlohmann::json& json) {
  if (!json.is_array()) return {json.get<T>()};
  std::vector<T> flat;
  for (const auto& part : json) {
    const std::vector<T> values = Flat<T>(part);
    flat.insert(flat.end(), values.begin(), values.end());
  }
  return flat;
}

TestBatch BatchOf(const nlohmann::json& row) {
  TestBatch batch(GroupsOf(row["groups"]));
  if (row.contains("lengths")) batch.set_lengths(Flat<std::int32_t>(row["lengths"]));
  if (row.contains("components")) batch.set_components(Flat<double>(row["components"]));
  if (row.contains("acr_ema")) batch.set_acr_ema(row["acr_ema"].get<double>());
  if (row.contains("history")) {
    std::vector<PromptHistory> history;
    for (std::size_t k = 0; k < row["groups"].size(); ++k) {
      history.push_back(
          {row["history"][k][0].get<std::int64_t>(), row["history"][k][1].get<std::int64_t>()});
    }
    batch.set_history(history);
  }
  return batch;
}

void ExpectValues(const std::vector<double>& values, const nlohmann::json& expected_groups) {
  const std::vector<double> expected = Flat<double>(expected_groups);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], kTolerance) << "completion " << i;
    EXPECT_EQ(values[i] == 0, expected[i] == 0) << "zero must be exact: completion " << i;
  }
}

void ExpectGolden(const nlohmann::json& row, const AdvantageInput& input,
                  const AdvantageOutput& out) {
  EXPECT_NEAR(input.collapse.step.acr(), row["acr"].get<double>(), kTolerance);
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    EXPECT_EQ(CollapseClassName(input.classes[k]), row["collapse"][k].get<std::string>());
    EXPECT_NEAR(out.decisions[k].weight, row["weights"][k].get<double>(), kTolerance);
    EXPECT_EQ(out.decisions[k].virtual_samples, row["samples"][k].get<double>());
    EXPECT_EQ(out.decisions[k].injected, row["weights"][k].get<double>() > 0);
  }
  ExpectValues(out.advantages, row["advantages"]);
  EXPECT_EQ(out.entropy_scale.empty(), !row.contains("entropy_scale"));
  if (row.contains("entropy_scale")) ExpectValues(out.entropy_scale, row["entropy_scale"]);
}

TEST(ComputeAdvantagesTest, GivesTheGoldenVectors) {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/advantages.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const nlohmann::json rows = nlohmann::json::parse(*text);
  std::set<Estimator> seen;
  std::set<AvspoMode> seen_modes;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const nlohmann::json& row = rows[r];
    SCOPED_TRACE("row " + std::to_string(r) + " " + row["set"].dump());
    const auto options = ParseAlgorithm(row["set"].get<std::vector<std::string>>());
    ASSERT_TRUE(options.ok()) << options.status().message();
    const TestBatch batch = BatchOf(row);
    const AdvantageInput input = batch.input();
    const auto out = ComputeAdvantages(input, *options);
    ASSERT_TRUE(out.ok()) << out.status().message();
    ExpectGolden(row, input, *out);
    seen.insert(options->advantage);
    if (options->advantage == Estimator::kAvspo) seen_modes.insert(options->avspo.mode);
  }
  for (const EstimatorInfo& info : Estimators())
    EXPECT_TRUE(seen.contains(info.estimator)) << info.name() << " has no golden vector";
  for (const AvspoModeInfo& info : AvspoModes())
    EXPECT_TRUE(seen_modes.contains(info.mode)) << info.name() << " has no golden vector";
}

TEST(ComputeAdvantagesTest, RewardsAloneGiveTheSameAsRewardsAndOutcomes) {
  const TestBatch batch({{1, 0, 0, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0.5, 0.5}});
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kOpposite;
  const auto with_outcomes = ComputeAdvantages(batch.input(), options);
  AdvantageInput input = batch.input();
  input.outcomes = {};
  const auto without = ComputeAdvantages(input, options);
  ASSERT_TRUE(with_outcomes.ok() && without.ok());
  EXPECT_EQ(with_outcomes->advantages, without->advantages);
}

TEST(ComputeAdvantagesTest, ShapedRewardsAreNormalisedWhileRawOnesDecideCollapse) {
  const TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}});
  AdvantageInput input = batch.input();
  const std::vector<double> shaped = {1.0, 0.75, 1.0, 0.75, 0, 0, 0, 0};
  input.rewards = shaped;
  AlgorithmConfig options;
  options.std = StdKind::kPopulation;
  options.eps = 0;
  const auto out = ComputeAdvantages(input, options);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->advantages, (std::vector<double>{1, -1, 1, -1, 0, 0, 0, 0}));
}

TEST(ComputeAdvantagesTest, RefusesInvalidShapesAndNumbers) {
  const TestBatch batch({{1, 0}, {1, 1}});
  const std::vector<std::int32_t> short_offsets = {0, 2, 3};
  const std::vector<double> short_rewards = {1, 0, 1};
  const std::vector<double> infinite = {1, std::numeric_limits<double>::infinity(), 1, 1};
  const std::vector<Outcome> unset(4, Outcome::kUnspecified);
  const std::vector<PromptHistory> backwards = {{2, 1}, {0, 0}};
  AdvantageInput input = batch.input();
  input.group_offsets = short_offsets;
  EXPECT_NE(ErrorOf(input).find("group_offsets end at 3"), std::string::npos) << ErrorOf(input);
  input = batch.input();
  input.raw_rewards = short_rewards;
  EXPECT_EQ(ErrorOf(input), "raw_rewards has 3 entries; expected 4");
  input = batch.input();
  input.rewards = infinite;
  EXPECT_NE(ErrorOf(input).find("completion 1 of the batch: reward = inf"), std::string::npos)
      << ErrorOf(input);
  input = batch.input();
  input.outcomes = unset;
  EXPECT_NE(ErrorOf(input).find("outcome is not set"), std::string::npos) << ErrorOf(input);
  input = batch.input();
  input.history = backwards;
  EXPECT_NE(ErrorOf(input).find("history of group 0: 2 correct of 1"), std::string::npos)
      << ErrorOf(input);
  input = batch.input();
  input.components = short_rewards;
  EXPECT_NE(ErrorOf(input).find("components has 3 entries"), std::string::npos) << ErrorOf(input);
}

TEST(ComputeAdvantagesTest, RefusesAdvantagesThatAreNotFinite) {
  const TestBatch batch({{1.7e308, 1.7e308, -1e308}});  // their sum overflows
  AlgorithmConfig options;
  options.eps = 0;
  EXPECT_NE(ErrorOf(batch.input(), options).find("no finite advantage for completion 0"),
            std::string::npos);
}

TEST(ComputeAdvantagesTest, ABatchWithoutScorableCompletionsIsZeroForEveryEstimator) {
  TestBatch batch({{std::nullopt, std::nullopt}, {std::nullopt}});
  batch.set_components({0, 0, 0});
  for (const EstimatorInfo& info : Estimators()) {
    AlgorithmConfig options;
    options.advantage = info.estimator;
    const auto out = ComputeAdvantages(batch.input(), options);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ(out->advantages, std::vector<double>(3, 0.0)) << info.name();
  }
}

TEST(ComputeAdvantagesTest, AnEmptyBatchHasNoAdvantages) {
  const TestBatch batch(TestGroups{});
  const auto out = ComputeAdvantages(batch.input(), {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->advantages.empty());
}

TEST(EstimatorsTest, EveryRowOfTheTableIsComplete) {
  for (const EstimatorInfo& info : Estimators()) {
    EXPECT_FALSE(info.paper.empty() || info.formula.empty() || info.on_constant_group.empty())
        << info.name();
    EXPECT_EQ(&InfoOf(info.estimator), &info);
  }
}

}  // namespace
}  // namespace buttress
