#include "lib/rl/loss/loss_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/config/load.h"

namespace buttress {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const AlgorithmConfig& algorithm) {
  return ValidateAlgorithmConfig(algorithm).message();
}

TEST(LossRulesTest, EveryPolicyLossCanBeConfiguredAndSomeHaveADualClip) {
  for (const PolicyLossInfo& info : PolicyLosses()) {
    AlgorithmConfig algorithm;
    algorithm.loss = info.loss;
    if (info.loss == PolicyLoss::kDecoupledPpo) {
      algorithm.old_policy = OldPolicy::kLearner;
      algorithm.correction.mode = CorrectionMode::kMis;
    }
    EXPECT_EQ(ErrorOf(algorithm), "") << info.name();
    algorithm.dual_clip = 3;
    EXPECT_EQ(ErrorOf(algorithm).empty(), HasDualClip(info.loss)) << info.name();
  }
}

TEST(LossRulesTest, InvalidCombinationsAreRefusedWithARemedy) {
  AlgorithmConfig algorithm;
  algorithm.correction.mode = CorrectionMode::kTis;
  EXPECT_THAT(ErrorOf(algorithm),
              HasSubstr("run.algorithm.correction.mode = tis: weighs the learner's old policy"));
  algorithm = {};
  algorithm.loss = PolicyLoss::kDecoupledPpo;
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("run.algorithm.loss = decoupled_ppo: is ppo with "
                                            "old_policy: learner and a correction.mode"));
  algorithm = {};
  algorithm.loss = PolicyLoss::kClipCov;
  algorithm.advantage = Estimator::kRlZvp;
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("needs advantages before tokens are run"));
  algorithm = {};
  algorithm.kl_in = KlPlace::kReward;
  EXPECT_THAT(ErrorOf(algorithm), HasSubstr("run.algorithm.kl_in = reward: needs kl_coef above 0"));
  algorithm.kl_coef = 0.1;
  algorithm.advantage = Estimator::kGdpo;
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
  config.run.algorithm.loss = PolicyLoss::kGpg;
  EXPECT_THAT(ValidateRunConfig(config).message(),
              HasSubstr("run.algorithm.loss = gpg: has no ratio"));
  config.run.batch.max_age = 0;
  EXPECT_TRUE(ValidateRunConfig(config).ok()) << ValidateRunConfig(config).message();
  config.run.algorithm.overlong.cache = 1000;
  EXPECT_THAT(
      ValidateRunConfig(config).message(),
      HasSubstr("run.algorithm.overlong.cache = 1000: at most the length that it ends at, 256"));
}

TEST(ZeroAdvantageTest, HasAGradientWhereTheLossHasATermWithoutAdvantage) {
  AlgorithmConfig algorithm;
  EXPECT_FALSE(ZeroAdvantageHasGradient(algorithm));
  algorithm.loss = PolicyLoss::kKlCov;
  EXPECT_TRUE(ZeroAdvantageHasGradient(algorithm));
  algorithm = {};
  algorithm.adaptive_entropy.target = 0.3;
  EXPECT_TRUE(ZeroAdvantageHasGradient(algorithm));
}

TEST(LossTablesTest, HaveARowForEveryLossAndEscapeBars) {
  const std::string tables = LossTables();
  for (const PolicyLossInfo& info : PolicyLosses())
    EXPECT_THAT(tables, HasSubstr("| `" + std::string(info.name()) + "` |"));
  EXPECT_THAT(tables, HasSubstr("KL(policy \\|\\| start model)"));
}

}  // namespace
}  // namespace buttress
