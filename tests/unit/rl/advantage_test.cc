// Golden vectors of tests/golden/make_advantages.py, and what is refused.
#include "lib/rl/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "lib/rl/avspo.h"
#include "tests/unit/rl/batch.h"

namespace buttress {
namespace {

constexpr double kTolerance = 1e-12;

TestGroups GroupsOf(const nlohmann::json& json) {
  TestGroups groups;
  for (const auto& group : json) {
    auto& out = groups.emplace_back();
    for (const auto& reward : group) {
      out.push_back(reward.is_null() ? std::optional<double>() : std::optional<double>(reward.get<double>()));
    }
  }
  return groups;
}

AlgorithmConfig OptionsOf(const nlohmann::json& row) {
  AlgorithmConfig options;
  options.advantage = row["estimator"].get<std::string>();
  options.std = row["std"].get<std::string>();
  options.eps = row["eps"].get<double>();
  if (row["avspo"].is_null()) return options;
  options.avspo.mode = row["avspo"]["mode"].get<std::string>();
  options.avspo.acr_threshold = row["avspo"]["acr_threshold"].get<double>();
  options.avspo.slope = row["avspo"]["slope"].get<double>();
  options.avspo.variance_threshold = row["avspo"]["variance_threshold"].get<double>();
  options.avspo.noise_std = row["avspo"]["noise_std"].get<double>();
  return options;
}

void ExpectGolden(const nlohmann::json& row, const AdvantageInput& input, const AdvantageOutput& out) {
  EXPECT_NEAR(input.collapse.step.acr(), row["acr"].get<double>(), kTolerance);
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    EXPECT_EQ(CollapseClassName(out.collapse[k]), row["collapse"][k].get<std::string>());
    EXPECT_NEAR(out.decisions[k].weight, row["weights"][k].get<double>(), kTolerance);
    EXPECT_EQ(out.decisions[k].injected, row["weights"][k].get<double>() > 0);
    const auto advantages = GroupRows(std::span<const double>(out.advantages), input.group_offsets, k);
    for (std::size_t i = 0; i < advantages.size(); ++i) {
      const double expected = row["advantages"][k][i].get<double>();
      EXPECT_NEAR(advantages[i], expected, kTolerance) << "group " << k << " completion " << i;
      EXPECT_EQ(advantages[i] == 0, expected == 0) << "zero must be exact: group " << k << " completion " << i;
    }
  }
}

TEST(ComputeAdvantagesTest, GivesTheGoldenVectors) {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/advantages.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const nlohmann::json rows = nlohmann::json::parse(*text);
  ASSERT_GT(rows.size(), 20U);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const nlohmann::json& row = rows[r];
    SCOPED_TRACE("row " + std::to_string(r) + " " + row["estimator"].get<std::string>() + " " + row["avspo"].dump());
    const TestBatch batch(GroupsOf(row["groups"]));
    const AdvantageInput input = batch.input();
    const auto out = ComputeAdvantages(input, OptionsOf(row));
    ASSERT_TRUE(out.ok()) << out.status().message();
    ExpectGolden(row, input, *out);
  }
}

TEST(ComputeAdvantagesTest, RewardsAloneGiveTheSameAsRewardsAndOutcomes) {
  const TestBatch batch({{1, 0, 0, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0.5, 0.5}});
  AlgorithmConfig options;
  options.advantage = "avspo";
  const auto with_outcomes = ComputeAdvantages(batch.input(), options);
  AdvantageInput input = batch.input();
  input.outcomes = {};
  const auto without = ComputeAdvantages(input, options);
  ASSERT_TRUE(with_outcomes.ok() && without.ok());
  EXPECT_EQ(with_outcomes->advantages, without->advantages);
  EXPECT_EQ(with_outcomes->collapse, without->collapse);
}

TEST(ComputeAdvantagesTest, ShapedRewardsAreNormalisedWhileRawOnesDecideCollapse) {
  const TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}});
  AdvantageInput input = batch.input();
  const std::vector<double> shaped = {1.0, 0.75, 1.0, 0.75, 0, 0, 0, 0};
  input.rewards = shaped;
  AlgorithmConfig options;
  options.std = "population";
  options.eps = 0;
  const auto out = ComputeAdvantages(input, options);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->collapse[0], CollapseClass::kAllCorrect);
  EXPECT_EQ(out->advantages, (std::vector<double>{1, -1, 1, -1, 0, 0, 0, 0}));
}

std::string ErrorOf(const AdvantageInput& input, const AlgorithmConfig& options = {}) {
  const auto out = ComputeAdvantages(input, options);
  return out.ok() ? "" : out.status().message();
}

TEST(ComputeAdvantagesTest, RefusesNamesThatItDoesNotKnow) {
  const TestBatch batch({{1, 0}});
  AlgorithmConfig options;
  options.advantage = "gpro";
  EXPECT_EQ(ErrorOf(batch.input(), options),
            "algorithm.advantage = 'gpro' is not an estimator; choose one of: grpo, dr_grpo, avspo");
  options.advantage = "grpo";
  options.std = "biased";
  EXPECT_NE(ErrorOf(batch.input(), options).find("sample, population, none"), std::string::npos);
  options.advantage = "avspo";
  options.std = "sample";
  options.avspo.mode = "ladder?";
  EXPECT_NE(ErrorOf(batch.input(), options).find("noise, opposite"), std::string::npos);
}

TEST(ComputeAdvantagesTest, RefusesShapesAndNumbersThatMakeNoSense) {
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
  EXPECT_NE(ErrorOf(input).find("completion 1 of the batch: reward = inf"), std::string::npos) << ErrorOf(input);
  input = batch.input();
  input.outcomes = unset;
  EXPECT_NE(ErrorOf(input).find("outcome is not set"), std::string::npos) << ErrorOf(input);
  input = batch.input();
  input.history = backwards;
  EXPECT_NE(ErrorOf(input).find("history of group 0: 2 correct of 1"), std::string::npos) << ErrorOf(input);
  input = batch.input();
  input.components = short_rewards;
  EXPECT_NE(ErrorOf(input).find("components has 3 entries"), std::string::npos) << ErrorOf(input);
}

TEST(ComputeAdvantagesTest, RefusesCollapseCountsOfAnotherBatch) {
  const TestBatch batch({{1, 0}, {1, 1}});
  AdvantageInput input = batch.input();
  input.collapse.step = {};
  EXPECT_NE(ErrorOf(input).find("a recount of the batch gives 1 of 2"), std::string::npos) << ErrorOf(input);
}

TEST(ComputeAdvantagesTest, RefusesAdvantagesThatAreNotFinite) {
  const TestBatch batch({{1e-200, 2e-200}});  // differ, but their squared difference underflows
  AlgorithmConfig options;
  options.eps = 0;
  EXPECT_NE(ErrorOf(batch.input(), options).find("no finite advantage for completion 0"), std::string::npos);
}

TEST(ComputeAdvantagesTest, AnEmptyBatchHasNoAdvantages) {
  const TestBatch batch(TestGroups{});
  const auto out = ComputeAdvantages(batch.input(), {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->advantages.empty());
}

TEST(AvspoTest, TheConfidenceWeightIsTheBriefs) {
  EXPECT_EQ(ConfidenceWeight(0.3, 0.3, 5.0), 0.0);
  EXPECT_NEAR(ConfidenceWeight(0.4, 0.3, 5.0), 0.5, 1e-12);  // 5 (0.4 - 0.3)
  EXPECT_EQ(ConfidenceWeight(0.9, 0.3, 5.0), 1.0);
}

TEST(AvspoTest, OppositeRecordsOneVirtualSamplePerRepairedGroup) {
  const TestBatch batch({{1, 0}, {1, 1}, {0, 0}, {0.5, 0.5}, {1, std::nullopt}});
  AlgorithmConfig options;
  options.advantage = "avspo";
  const auto out = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  const std::vector<std::int32_t> expected = {0, 1, 1, 0, 0};
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(out->decisions[k].virtual_samples, expected[k]) << "group " << k;
    EXPECT_EQ(out->decisions[k].injected, expected[k] > 0) << "group " << k;
  }
  EXPECT_EQ(out->collapse[1], CollapseClass::kAllCorrect);
  EXPECT_EQ(out->collapse[3], CollapseClass::kOtherConstant);
  EXPECT_EQ(out->advantages[6], 0.0);  // constant 0.5 has no opposite
}

TEST(AvspoTest, NoiseDependsOnTheKeyAndOnNothingElse) {
  const TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}});
  AlgorithmConfig options;
  options.advantage = "avspo";
  options.avspo.mode = "noise";
  AdvantageInput input = batch.input();
  const auto first = ComputeAdvantages(input, options);
  const auto again = ComputeAdvantages(input, options);
  input.key.stream += 1;
  const auto other = ComputeAdvantages(input, options);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->advantages, again->advantages);
  EXPECT_NE(first->advantages, other->advantages);
}

}  // namespace
}  // namespace buttress
