#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cli/train/console.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepMeasurements Trained() {
  StepMeasurements step;
  step.step = 3;
  step.raw_reward_mean = 0.5;
  step.accuracy = 0.75;
  step.acr = 0.25;
  step.completions = 8;
  step.seconds_step = 2;
  step.speed_fresh = 123;
  step.token_age_mean = 1.25;
  return step;
}

TEST(StepLineTest, SaysWhatEveryStepHas) {
  EXPECT_EQ(StepLine(Trained(), 10, 65),
            "step 3/10  30%  raw reward 0.500  accuracy 0.75  acr 0.25  entropy 0  left 1m05s  "
            "0 tok/s");
  EXPECT_THAT(StepLine(Trained(), 10, 7260), HasSubstr("left 2h01m"));
}

TEST(StepLineTest, FitsATerminal) {
  StepMeasurements step = Trained();
  step.step = 9999;
  step.raw_reward_mean = -1.123;
  step.entropy = 10.123;
  step.tokens_per_second = 99999;
  step.unscorable = step.completions;
  EXPECT_LE(StepLine(step, 9999, 359999).size(), 120U);
  EXPECT_THAT(StepLine(step, 9999, 359999), HasSubstr("tok/s"));
}

TEST(StepLineTest, ANarrowTerminalKeepsTheTimeLeft) {
  StepMeasurements step = Trained();
  step.unscorable = 2;
  EXPECT_EQ(StepLine(step, 10, 65, 85),
            "step 3/10  30%  raw reward 0.500  accuracy 0.75  acr 0.25  entropy 0  left 1m05s");
  EXPECT_EQ(StepLine(step, 10, 65, 50), "step 3/10  30%  raw reward 0.500  left 1m05s");
}

TEST(StepLineTest, TheNewestTenStepsAreAveragedOverWhatWasMeasured) {
  std::vector<StepMeasurements> steps(12, Trained());
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].step = static_cast<double>(i + 1);
  steps[0].accuracy = 1000;
  steps[10].accuracy = StepMeasurements::kNotMeasured;
  steps[11].accuracy = 0;
  steps[11].unscorable = 8;
  const StepMeasurements mean = MeanOfNewest(steps);
  EXPECT_EQ(mean.step, 12);
  EXPECT_DOUBLE_EQ(mean.accuracy, 8 * 0.75 / 9);
  EXPECT_DOUBLE_EQ(mean.unscorable / mean.completions, 0.1);
}

TEST(StepLineTest, WhatWasNotScoredIsNotAZero) {
  constexpr double kNaN = StepMeasurements::kNotMeasured;
  StepMeasurements step = Trained();
  step.raw_reward_mean = step.accuracy = step.acr = step.entropy = step.kl = step.token_age_mean =
      kNaN;
  step.unscorable = 8;
  const std::string line = StepLine(step, 10, -1);
  EXPECT_THAT(line, HasSubstr("reward -  accuracy -  acr -  entropy -  left ?"));
  EXPECT_THAT(line, HasSubstr("unscorable 100%"));
  EXPECT_THAT(StepDetails(step), HasSubstr("kl -"));
}

TEST(StepLineTest, VerboseNamesThePriceOfDynamicSampling) {
  StepMeasurements step = Trained();
  step.groups = 12;
  step.groups_replaced = 4;
  step.drawn_per_kept = 1.5;
  EXPECT_THAT(StepDetails(step), HasSubstr("drawn 12 (4 replaced, 0 masked)  tokens x1.50"));
  EXPECT_THAT(StepDetails(Trained()), Not(HasSubstr("tokens x")));
}

TEST(StepLineTest, VerboseNamesTheLargestOfTheWaits) {
  StepMeasurements step = Trained();
  step.seconds_wait = 0.2;
  step.seconds_wait_peers = 0.5;
  EXPECT_THAT(StepDetails(step), HasSubstr("fresh 123/s  age 1.2  waits 35 % (peers)"));
}

}  // namespace
}  // namespace buttress
