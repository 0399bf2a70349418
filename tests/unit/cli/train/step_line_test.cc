#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
            "step 3/10  30%  reward 0.500  accuracy 0.75  acr 0.25  entropy 0  0 tok/s  left "
            "1m05s");
  EXPECT_THAT(StepLine(Trained(), 10, 7260), HasSubstr("left 2h01m"));
}

TEST(StepLineTest, FitsATerminal) {
  StepMeasurements step = Trained();
  step.step = 99999;
  step.raw_reward_mean = -1.123;
  step.entropy = 10.123;
  step.tokens_per_second = 999999;
  step.unscorable = step.completions;
  EXPECT_LE(StepLine(step, 99999, 359999).size(), 120U);
}

TEST(StepLineTest, WhatWasNotScoredIsNotAZero) {
  constexpr double kNaN = StepMeasurements::kNotMeasured;
  StepMeasurements step = Trained();
  step.raw_reward_mean = step.accuracy = step.acr = step.entropy = step.kl = step.token_age_mean =
      kNaN;
  step.unscorable = 8;
  const std::string line = StepLine(step, 10, -1, /*verbose=*/true);
  EXPECT_THAT(line, HasSubstr("reward -  accuracy -  acr -  entropy -  0 tok/s  left ?"));
  EXPECT_THAT(line, HasSubstr("unscorable 100%"));
  EXPECT_THAT(line, HasSubstr("kl -"));
}

TEST(StepLineTest, VerboseNamesThePriceOfDynamicSampling) {
  StepMeasurements step = Trained();
  step.groups = 12;
  step.groups_replaced = 4;
  step.drawn_per_kept = 1.5;
  EXPECT_THAT(StepLine(step, 10, -1, /*verbose=*/true),
              HasSubstr("drawn 12 (4 replaced, 0 masked)  tokens x1.50"));
  EXPECT_THAT(StepLine(step, 10, -1), Not(HasSubstr("tokens x")));
}

TEST(StepLineTest, VerboseNamesTheLargestOfTheWaits) {
  StepMeasurements step = Trained();
  step.seconds_wait = 0.2;
  step.seconds_wait_peers = 0.5;
  EXPECT_THAT(StepLine(step, 10, -1, /*verbose=*/true),
              HasSubstr("fresh 123/s  age 1.2  waits 35 % (peers)"));
}

}  // namespace
}  // namespace buttress
