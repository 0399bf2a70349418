#include "cli/step_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepMeasurements Trained() {
  StepMeasurements step;
  step.step = 3;
  step.reward_mean = 0.5;
  step.acr = 0.25;
  step.completions = 8;
  step.seconds_step = 2;
  step.speed_fresh = 123;
  step.token_age_mean = 1.25;
  return step;
}

TEST(StepLineTest, SaysWhatEveryStepHas) {
  const std::string line = StepLine(Trained(), 10, 65);
  EXPECT_THAT(line, HasSubstr("step 3/10  30%  reward 0.500  acr 0.25 (all-correct 0.00"));
  EXPECT_THAT(line, HasSubstr("fresh 123/s  age 1.2  left 1m05s"));
  EXPECT_THAT(line, Not(HasSubstr("unscorable")));
  EXPECT_THAT(line, Not(HasSubstr("waits")));
}

TEST(StepLineTest, WhatWasNotScoredIsNotAZero) {
  constexpr double kNaN = StepMeasurements::kNotMeasured;
  StepMeasurements step = Trained();
  step.reward_mean = step.acr = step.entropy = step.kl = step.token_age_mean = kNaN;
  step.unscorable = 8;
  EXPECT_THAT(StepLine(step, 10, -1),
              HasSubstr("reward -  acr -  unscorable 100 %  entropy -  kl -"));
}

TEST(StepLineTest, NamesThePriceOfDynamicSampling) {
  StepMeasurements step = Trained();
  step.groups = 12;
  step.groups_replaced = 4;
  step.drawn_per_kept = 1.5;
  EXPECT_THAT(StepLine(step, 10, -1), HasSubstr("drawn 12 (4 replaced, 0 masked)  tokens x1.50"));
  EXPECT_THAT(StepLine(Trained(), 10, -1), Not(HasSubstr("tokens x")));
}

TEST(StepLineTest, NamesTheLargestOfTheWaits) {
  StepMeasurements step = Trained();
  step.seconds_wait = 0.2;
  step.seconds_wait_peers = 0.5;
  EXPECT_THAT(StepLine(step, 10, -1), HasSubstr("waits 35 % (peers)"));
}

}  // namespace
}  // namespace buttress
