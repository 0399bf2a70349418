// The files of configs/: each is valid, and the recipes have what their papers are known for.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lib/config/load.h"

namespace buttress {
namespace {

const std::filesystem::path kConfigs = std::filesystem::path(BUTTRESS_SOURCE_DIR) / "configs";

RunSettings Recipe(const std::string& name) {
  const auto config = LoadRunConfig(kConfigs / (name + ".yaml"), {});
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? config->run : RunSettings();
}

TEST(ConfigsTest, EveryFileIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    const auto config = LoadRunConfig(entry.path(), {});
    EXPECT_TRUE(config.ok()) << config.status().ToString();
    ++files;
  }
  EXPECT_GE(files, 9);
}

TEST(ConfigsTest, RecipesHaveTheMeansOfTheirPapers) {
  EXPECT_EQ(Recipe("grpo").algorithm.advantage, Estimator::kGrpo);
  EXPECT_GT(Recipe("grpo").algorithm.kl_coef, 0);
  EXPECT_EQ(Recipe("dr_grpo").algorithm.aggregation, Aggregation::kSeqMeanTokenSumNorm);
  EXPECT_EQ(Recipe("gspo").algorithm.loss, PolicyLoss::kGspo);
  EXPECT_EQ(Recipe("avspo").algorithm.advantage, Estimator::kAvspo);
  EXPECT_EQ(Recipe("a_grae").algorithm.advantage, Estimator::kAGrae);
  const RunSettings dapo = Recipe("dapo");
  EXPECT_GT(dapo.algorithm.clip_high, dapo.algorithm.clip_low);
  EXPECT_EQ(dapo.batch.zero_variance, ZeroVariancePolicy::kResample);
  EXPECT_EQ(dapo.batch.denominator, StepDenominator::kKept);
  EXPECT_EQ(dapo.batch.updates, 16);
  EXPECT_GT(dapo.algorithm.overlong.cache, 0);
}

}  // namespace
}  // namespace buttress
