#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/measure/alarms.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr StopWhenConfig kConfig{.unscorable = 0.9,
                                 .unscorable_steps = 3,
                                 .uninformative = 0.95,
                                 .uninformative_steps = 4,
                                 .unchanged_steps = 5};

// 4 groups of 10 completions.
StepMeasurements StepOf(double informative, double all_correct, double all_wrong,
                        double unscorable_groups = 0) {
  StepMeasurements step;
  step.groups = 4;
  step.completions = 40;
  step.unscorable_groups = unscorable_groups;
  step.unscorable = 10 * unscorable_groups;
  step.groups_informative = informative;
  const double comparable = step.groups - unscorable_groups;
  step.acr_all_correct = all_correct / comparable;
  step.acr_all_wrong = all_wrong / comparable;
  return step;
}

// The end after `steps` equal steps, and none before it.
std::optional<EarlyEnd> EndAfter(int steps, const StepMeasurements& step) {
  Breaker breaker(kConfig);
  for (int n = 1; n < steps; ++n) EXPECT_FALSE(breaker.Observe(step, "why").has_value()) << n;
  return breaker.Observe(step, "why");
}

TEST(BreakerTest, EndsARunInWhichNothingIsScored) {
  const auto end = EndAfter(3, StepOf(0, 0, 0, 4));
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->learned);
  EXPECT_THAT(end->why, HasSubstr("90 % of the completions or more had no verdict (why)"));
  EXPECT_THAT(end->why, HasSubstr("unscorable_steps"));
}

// The reason of a time-out says what to raise; the verifier is not at fault.
TEST(BreakerTest, ATimeoutGivesNoAdviceAboutTheVerifier) {
  for (const auto& [reason, advice] :
       {std::pair("no such file", true), {"timeout: more than run.reward.timeout_ms = 5", false}}) {
    Breaker breaker({.unscorable = 0.9, .unscorable_steps = 1});
    const auto end = breaker.Observe(StepOf(0, 0, 0, 4), reason);
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(end->why, HasSubstr(reason));
    EXPECT_EQ(end->why.find("fix run.reward.verifier") != std::string::npos, advice) << end->why;
  }
}

TEST(BreakerTest, AStepWithEnoughVerdictsStartsTheCountAgain) {
  Breaker breaker(kConfig);
  const StepMeasurements none = StepOf(0, 0, 0, 4), some = StepOf(1, 0, 0, 3);
  for (int n = 0; n < 5; ++n) {
    EXPECT_FALSE(breaker.Observe(none, "").has_value());
    EXPECT_FALSE(breaker.Observe(none, "").has_value());
    EXPECT_FALSE(breaker.Observe(some, "").has_value());
  }
}

TEST(BreakerTest, EndsARunInWhichNoGroupDiffersAndSaysWhatMendsIt) {
  const auto wrong = EndAfter(4, StepOf(0, 0, 4));
  ASSERT_TRUE(wrong.has_value());
  EXPECT_FALSE(wrong->learned);
  EXPECT_THAT(wrong->why, HasSubstr("no group of 4 steps in a row had differing deciding rewards"));
  EXPECT_THAT(wrong->why, HasSubstr("audit-verifier"));
  const auto both = EndAfter(4, StepOf(0, 3, 1));
  ASSERT_TRUE(both.has_value());
  EXPECT_FALSE(both->learned);
  EXPECT_THAT(both->why, HasSubstr("run.sampling.group_size"));
}

TEST(BreakerTest, ARunWhoseGroupsAreAllCorrectIsASuccess) {
  const auto end = EndAfter(4, StepOf(0, 4, 0));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->learned);
  EXPECT_THAT(end->why, HasSubstr("nothing left to learn"));
}

TEST(BreakerTest, OneGroupThatDiffersIsEnough) {
  Breaker breaker(kConfig);
  for (int n = 1; n < 40; ++n)
    EXPECT_FALSE(breaker.Observe(StepOf(n % 4 == 0 ? 1 : 0, 0, 3), "").has_value()) << n;
}

// 98 % of the completions of a run without a verdict, unevenly by step.
TEST(BreakerTest, ByDefaultNearlyEverythingUnscorableEndsARun) {
  Breaker breaker{StopWhenConfig()};
  StepMeasurements step = StepOf(0, 0, 0, 4);
  for (const double scored : {0, 1, 2, 0}) {
    step.unscorable = 40 - scored;
    EXPECT_FALSE(breaker.Observe(step, "").has_value());
  }
  EXPECT_TRUE(breaker.Observe(step, "").has_value());
}

TEST(BreakerTest, HardlyAGroupThatDiffersIsTooFew) {
  Breaker breaker({.uninformative = 0.9, .uninformative_steps = 4});
  const StepMeasurements none = StepOf(0, 0, 4), one = StepOf(1, 0, 3);
  for (const StepMeasurements& step : {one, none, one})
    EXPECT_FALSE(breaker.Observe(step, "").has_value());
  EXPECT_FALSE(breaker.Observe(none, "").has_value());  // 2 of 16
  const auto end = breaker.Observe(none, "");           // 1 of 16
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->learned);
  EXPECT_THAT(end->why, HasSubstr("only 1 of 16 groups of 4 steps in a row had differing"));
  EXPECT_THAT(end->why, HasSubstr("audit-verifier"));
}

TEST(BreakerTest, NearlyAllCorrectIsASuccess) {
  Breaker breaker({.uninformative = 0.9, .uninformative_steps = 4});
  for (int n = 1; n < 4; ++n) EXPECT_FALSE(breaker.Observe(StepOf(0, 4, 0), "").has_value());
  const auto end = breaker.Observe(StepOf(1, 3, 0), "");
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->learned);
  EXPECT_THAT(end->why, HasSubstr("nearly every group of the last 4 steps was all correct"));
}

// Of the groups that a step trains on, dynamic sampling leaves out the constant ones.
TEST(BreakerTest, ReplacedGroupsDoNotCount) {
  Breaker breaker(kConfig);
  StepMeasurements step = StepOf(4, 0, 0);
  step.groups = 400;
  step.groups_replaced = 396;
  step.acr_all_wrong = 0.99;
  for (int n = 0; n < 10; ++n) EXPECT_FALSE(breaker.Observe(step, "").has_value());
}

TEST(BreakerTest, EndsARunWhoseWeightsDoNotChange) {
  Breaker breaker(kConfig);
  StepMeasurements step = StepOf(2, 1, 1);
  step.unchanged_versions = 4;
  EXPECT_FALSE(breaker.Observe(step, "").has_value());
  step.unchanged_versions = 5;
  const auto end = breaker.Observe(step, "");
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(end->why, HasSubstr("no weight changed in 5 steps"));
}

TEST(BreakerTest, ABoundOfZeroIsNone) {
  Breaker breaker(
      {.unscorable = 1, .unscorable_steps = 0, .uninformative_steps = 0, .unchanged_steps = 0});
  StepMeasurements step = StepOf(0, 0, 0, 4);
  step.unchanged_versions = 500;
  for (int n = 0; n < 500; ++n) EXPECT_FALSE(breaker.Observe(step, "").has_value());
}

}  // namespace
}  // namespace buttress
