#include "lib/rl/loss/loss_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/config/load.h"
#include "lib/rl/loss/aggregation.h"

namespace buttress {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const AlgorithmConfig& algorithm) {
  return ValidateAlgorithmConfig(algorithm).message();
}

TEST(LossTableTest, IsInTheOrderOfItsEnumerationAndItsNamesAreThoseOfTheConfiguration) {
  for (std::size_t i = 0; i < PolicyLosses().size(); ++i) {
    const PolicyLossEntry& entry = PolicyLosses()[i];
    EXPECT_EQ(static_cast<std::size_t>(entry.loss), i);
    AlgorithmConfig algorithm;
    algorithm.loss = entry.name;
    if (entry.loss == PolicyLoss::kDecoupledPpo) {
      algorithm.old_policy = "learner";
      algorithm.correction.mode = "mis";
    }
    EXPECT_EQ(ErrorOf(algorithm), "") << entry.name;
    algorithm.dual_clip = 3;
    EXPECT_EQ(ErrorOf(algorithm).empty(), entry.has_dual_clip) << entry.name;
  }
}

TEST(LossTableTest, ChoicesAreThoseOfTheConfiguration) {
  for (const LossChoice& choice : KlEstimators()) {
    AlgorithmConfig algorithm;
    algorithm.kl_estimator = choice.name;
    EXPECT_EQ(ErrorOf(algorithm), "") << choice.name;
  }
  for (const LossChoice& choice : Aggregations()) {
    AlgorithmConfig algorithm;
    algorithm.aggregation = choice.name;
    EXPECT_EQ(ErrorOf(algorithm), "") << choice.name;
  }
  for (const LossChoice& mode : CorrectionModes()) {
    for (const LossChoice& level : CorrectionLevels()) {
      AlgorithmConfig algorithm;
      algorithm.old_policy = "learner";
      algorithm.correction.mode = mode.name;
      algorithm.correction.level = level.name;
      EXPECT_EQ(ErrorOf(algorithm), "") << mode.name << ", " << level.name;
    }
  }
}

TEST(LossTableTest, UnknownNamesAreAnsweredWithTheChoices) {
  EXPECT_THAT(FindPolicyLoss("pop").status().message(),
              HasSubstr("algorithm.loss = 'pop' is not a loss; choose one of: ppo, "));
  EXPECT_EQ(FindChoice(KlEstimators(), "kl_estimator", "k4").status().message(),
            "algorithm.kl_estimator = 'k4' is not known; choose one of: k1, k2, k3, k3+");
}

TEST(LossRulesTest, CombinationsThatMakeNoSenseAreRefusedWithTheMend) {
  AlgorithmConfig algorithm;
  algorithm.correction.mode = "tis";
  EXPECT_THAT(ErrorOf(algorithm),
              HasSubstr("run.algorithm.correction.mode = tis: weighs the learner's old policy"));
  algorithm = {};
  algorithm.loss = "decoupled_ppo";
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("run.algorithm.loss = decoupled_ppo: is ppo with "
                                            "old_policy: learner and a correction.mode"));
  algorithm = {};
  algorithm.loss = "clip_cov";
  algorithm.advantage = "rl_zvp";
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("needs advantages before tokens are run"));
  algorithm = {};
  algorithm.kl_in = "reward";
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("run.algorithm.kl_in = reward: needs kl_coef above 0"));
  algorithm.kl_coef = 0.1;
  algorithm.advantage = "gdpo";
  EXPECT_THAT(ErrorOf(algorithm),
              HasSubstr("run.algorithm.advantage = gdpo: reads reward components"));
  algorithm = {};
  algorithm.length_norm = 8;
  EXPECT_THAT(
      ErrorOf(algorithm),
      HasSubstr(
          "run.algorithm.length_norm = 8: is read by aggregation: seq_mean_token_sum_norm alone"));
  algorithm = {};
  algorithm.adaptive_entropy.target = 0.2;
  algorithm.entropy_coef = 2;
  EXPECT_THAT(ErrorOf(algorithm),
              HasSubstr("run.algorithm.entropy_coef = 2: where adaptive_entropy starts"));
}

TEST(LossRulesTest, GroupsOfOlderWeightsNeedARatioOrACorrection) {
  RunConfig config;
  config.run.data.prompts = "p.jsonl";
  config.run.model.path = "m";
  config.run.algorithm.loss = "gpg";
  EXPECT_THAT(ValidateRunConfig(config).message(),
              HasSubstr("run.algorithm.loss = gpg: has no ratio"));
  config.run.batch.max_age = 0;
  EXPECT_TRUE(ValidateRunConfig(config).ok()) << ValidateRunConfig(config).message();
  config.run.algorithm.overlong.cache = 1000;
  EXPECT_THAT(
      ValidateRunConfig(config).message(),
      HasSubstr("run.algorithm.overlong.cache = 1000: at most the length that it ends at, 256"));
}

TEST(ZeroAdvantageTest, HasAGradientWhereALossDoesNotMultiplyByIt) {
  AlgorithmConfig algorithm;
  EXPECT_FALSE(ZeroAdvantageHasGradient(algorithm));
  algorithm.loss = "kl_cov";
  EXPECT_TRUE(ZeroAdvantageHasGradient(algorithm));
  algorithm = {};
  algorithm.adaptive_entropy.target = 0.3;
  EXPECT_TRUE(ZeroAdvantageHasGradient(algorithm));
}

TEST(LossTablesTest, HaveARowForEveryLossAndNoCellThatABarEnds) {
  const std::string tables = LossTables();
  for (const PolicyLossEntry& entry : PolicyLosses())
    EXPECT_THAT(tables, HasSubstr("| `" + std::string(entry.name) + "` |"));
  EXPECT_THAT(tables, HasSubstr("KL(policy \\|\\| start model)"));
}

}  // namespace
}  // namespace buttress
