#include "learner/step/step_sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/test_group.h"

namespace buttress {
namespace {

TEST(StepSumsTest, SumsOfRanksBecomeSharesAndQuantiles) {
  StepSums sums;
  sums[LossMetric::kTokens] = 8;
  sums[LossMetric::kDropped] = 2;
  sums[LossMetric::kPolicyLoss] = 0.5;
  sums[LossMetric::kKlLoss] = 0.25;
  sums[LossMetric::kEntropyBonus] = 0.125;
  sums[LossMetric::kClippedHigh] = 2;
  sums[LossMetric::kRatio] = 8;
  sums[LossMetric::kRatioSquared] = 16;
  sums[LossMetric::kCorrection] = 6;
  sums[LossMetric::kCorrectionSquared] = 6;
  sums[LossMetric::kCorrectionMasked] = 2;
  sums.values[StepSums::kWeightCounts + kWeightBins / 2] = 7;  // weights of 1
  sums.values[StepSums::kWeightCounts + kWeightBins - 1] = 1;
  sums[StepSums::kSampledNats] = 3;
  sums[StepSums::kSampledTokens] = 12;
  sums[StepSums::kResponses] = 8;
  sums[StepSums::kDistinct] = 2;
  sums[StepSums::kFormatted] = 6;
  StepMeasurements measured;
  MeasureSums(sums, 1, measured);
  EXPECT_EQ(measured.trained_tokens, 8);
  EXPECT_EQ(measured.dropped_tokens, 2);
  EXPECT_EQ(measured.loss, 0.625);
  EXPECT_EQ(measured.clip_high, 0.25);
  EXPECT_EQ(measured.importance_mean, 1);
  EXPECT_EQ(measured.importance_ess, 0.5);
  EXPECT_EQ(measured.importance_p50, 1);
  EXPECT_GT(measured.importance_p99, 1e6);
  EXPECT_EQ(measured.correction_mean, 0.75);
  EXPECT_EQ(measured.correction_ess, 0.75);
  EXPECT_EQ(measured.correction_truncated, 0);
  EXPECT_EQ(measured.correction_masked, 0.25);
  EXPECT_EQ(measured.entropy, 0.25);
  EXPECT_EQ(measured.distinct_share, 0.25);
  EXPECT_EQ(measured.format_share, 0.75);
}

TEST(StepSumsTest, CompletionsThatTwoVerifiersJudgedCountOnceWithTheirDisagreement) {
  using enum Outcome;
  v1::Group group = NewGroup(1);
  for (const auto& [first, second] : {std::pair{kCorrect, kCorrect},
                                      {kWrong, kCorrect},
                                      {kWrong, kUnspecified},
                                      {kWrong, kUnscorable},
                                      {kUnscorable, kWrong},
                                      {kWrong, kWrong}}) {
    AppendCompletion(group, {1}, first, 0);
    group.add_second_outcomes(static_cast<v1::Outcome>(second));
  }
  StepSums sums;
  sums.AddGroup(group);
  StepMeasurements measured;
  MeasureSums(sums, 1, measured);
  EXPECT_EQ(measured.twice_verified, 3);
  EXPECT_DOUBLE_EQ(measured.disagreement, 1.0 / 3);
  MeasureSums(StepSums(), 1, measured);
  EXPECT_TRUE(std::isnan(measured.disagreement));
}

TEST(StepSumsTest, DistinctAndWellFormedResponsesOfTheScorableAreCountedByGroup) {
  v1::Group group = NewGroup(1);
  AppendCompletion(group, {1, 2}, Outcome::kCorrect, 1);
  AppendCompletion(group, {1, 2}, Outcome::kCorrect, 1);
  AppendCompletion(group, {1, 3}, Outcome::kWrong, 0);
  AppendCompletion(group, {9}, Outcome::kUnscorable, 0);
  for (const char* answer : {"2", "2", "", "9"}) group.add_extracted_answers(answer);
  StepSums sums;
  sums.AddGroup(group);
  sums.AddGroup(group);  // another group with the same texts
  EXPECT_EQ(sums[StepSums::kResponses], 6);
  EXPECT_EQ(sums[StepSums::kDistinct], 4);
  EXPECT_EQ(sums[StepSums::kFormatted], 4);
  EXPECT_EQ(sums[StepSums::kSampledTokens], 12);
  EXPECT_EQ(sums[StepSums::kSampledNats], 12);
}

TEST(StepSumsTest, ABranchOfAnEpisodeIsNoFurtherResponseAndItsTokensCount) {
  v1::Group group = NewGroup(1);
  AppendCompletion(group, {1, 2}, Outcome::kCorrect, 1);
  AppendCompletion(group, {1, 3, 4}, Outcome::kCorrect, 1);
  AddTrainedSpan(group, 1, {2, 3});
  for (const std::int32_t parent : {-1, 0}) group.mutable_head()->add_parents(parent);
  for (const char* answer : {"2", "2"}) group.add_extracted_answers(answer);
  StepSums sums;
  sums.AddGroup(group);
  EXPECT_EQ(sums[StepSums::kResponses], 1);
  EXPECT_EQ(sums[StepSums::kFormatted], 1);
  EXPECT_EQ(sums[StepSums::kSampledTokens], 3) << "without those that the policy did not sample";
}

TEST(StepSumsTest, WhatAStepWithoutTokensCannotKnowIsNotMeasured) {
  StepMeasurements measured;
  MeasureSums(StepSums(), 1, measured);
  EXPECT_EQ(measured.trained_tokens, 0);
  EXPECT_EQ(measured.accepted_tokens, 0);
  EXPECT_EQ(measured.loss, 0);
  for (const double mean : {measured.kl, measured.entropy, measured.entropy_exact,
                            measured.clip_high, measured.importance_mean, measured.token_age_mean,
                            measured.token_age_p99, measured.freshness, measured.distinct_share}) {
    EXPECT_TRUE(std::isnan(mean));
  }
}

TEST(StepSumsTest, EveryTrainedTokenHasTheAgeOfTheVersionThatSampledIt) {
  v1::Group group = NewGroup(1, {1}, {1, 3, ""});
  AppendCompletion(group, {7}, Outcome::kWrong, 0);
  AppendCompletion(group, std::vector<std::int32_t>(10, 1), Outcome::kWrong, 0);
  *group.mutable_head()->add_versions() = ToProto(PolicyVersion{2, 5, ""});
  *group.mutable_head()->add_versions() = ToProto(PolicyVersion{2, 6, ""});
  AddSegment(group, 0, 0, 0);
  AddSegment(group, 1, 0, 0);
  AddSegment(group, 1, 4, 1);
  AddSegment(group, 1, 8, 2);
  StepSums all;
  all.AddAges(group, 1, 7);  // starts from version 6: ages 3 x4, 1 x4, 0 x2
  StepMeasurements measured;
  MeasureSums(all, 1, measured);
  EXPECT_EQ(measured.accepted_tokens, 10);
  EXPECT_DOUBLE_EQ(measured.token_age_mean, 1.6);
  EXPECT_EQ(measured.token_age_p50, 1);
  EXPECT_EQ(measured.token_age_p99, 3);
  EXPECT_DOUBLE_EQ(measured.freshness, (4 / 4.0 + 4 / 2.0 + 2) / 10);

  AddTrainedSpan(group, 1, {2, 5});
  AddTrainedSpan(group, 1, {9, 10});
  StepSums some;
  some.AddAges(group, 1, 40);  // ages 36 x2, 34, 33: all in the last bin
  MeasureSums(some, 1, measured);
  EXPECT_EQ(measured.accepted_tokens, 4);
  EXPECT_DOUBLE_EQ(measured.token_age_mean, (2 * 36 + 34 + 33) / 4.0);
  EXPECT_EQ(measured.token_age_p50, 16);
}

TEST(StepSumsTest, TheKlTermCountsInTheGradientMass) {
  BatchSummary batch;
  batch.acr = 0.5;
  batch.gradient = {.all = 3, .virtual_samples = 1};
  StepSums sums;
  sums[StepSums::kKlMass] = 1;
  StepMeasurements measured;
  MeasureBatch(batch, sums, 1, measured);
  EXPECT_DOUBLE_EQ(measured.acr, 0.5);
  EXPECT_DOUBLE_EQ(measured.collapsed_gradient_share, 0.25);
  EXPECT_DOUBLE_EQ(measured.collapsed_gradient_virtual, 0.25);
}

}  // namespace
}  // namespace buttress
