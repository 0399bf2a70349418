#include "lib/measure/alarms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace buttress {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Reading {
  double entropy = 0, kl = 0, ref_kl = 0, distinct_share = 1;
};

StepMeasurements Step(const Reading& reading) {
  StepMeasurements step;
  step.entropy = reading.entropy;
  step.kl = reading.kl;
  step.ref_kl = reading.ref_kl;
  step.distinct_share = reading.distinct_share;
  return step;
}

TEST(AlarmsTest, FitLineIsTheLeastSquaresLine) {
  const double straight[] = {3.0, 2.5, 2.0, 1.5};
  EXPECT_DOUBLE_EQ(FitLine(straight).first, 3.0);
  EXPECT_DOUBLE_EQ(FitLine(straight).last, 1.5);
  EXPECT_DOUBLE_EQ(FallOf(straight), 0.5);
  const double bent[] = {1.0, 0.0, 0.0};  // slope -1/2, mean 1/3
  EXPECT_NEAR(FitLine(bent).first, 5.0 / 6, 1e-15);
  EXPECT_NEAR(FitLine(bent).last, -1.0 / 6, 1e-15);
  const double rising[] = {0.1, 0.2};
  EXPECT_EQ(FallOf(rising), 0);
  EXPECT_EQ(FallOf(std::span<const double>(rising, 1)), 0);
}

TEST(AlarmsTest, LowEntropyRaisesOneAlarmAfterMoreThanFiftyStepsAndAnotherAtItsNextOnset) {
  AlarmMonitor monitor{AlarmConfig()};
  const StepMeasurements low = Step({.entropy = 0.49});
  for (int step = 1; step <= 50; ++step) EXPECT_THAT(monitor.Observe(low), IsEmpty()) << step;
  EXPECT_THAT(monitor.Observe(low), ElementsAre(Alarm::kEntropyLow));
  EXPECT_THAT(monitor.Observe(low), IsEmpty());
  EXPECT_TRUE(monitor.active(Alarm::kEntropyLow));
  EXPECT_THAT(monitor.Observe(Step({.entropy = 0.5})), IsEmpty());
  EXPECT_FALSE(monitor.active(Alarm::kEntropyLow));
  for (int step = 1; step <= 50; ++step) EXPECT_THAT(monitor.Observe(low), IsEmpty());
  EXPECT_THAT(monitor.Observe(low), ElementsAre(Alarm::kEntropyLow));
}

TEST(AlarmsTest, AFallingEntropyRaisesAnAlarmBeforeItIsLow) {
  AlarmConfig config;
  config.trend_steps = 10;
  AlarmMonitor monitor{config};
  std::vector<Alarm> raised;
  int at = 0;
  for (int step = 1; step <= 40 && raised.empty(); ++step) {
    raised = monitor.Observe(Step({.entropy = 2.0 * std::pow(0.92, step)}));
    at = step;
  }
  EXPECT_THAT(raised, ElementsAre(Alarm::kEntropyFalling));
  EXPECT_EQ(at, 10);  // 0.92^9 is below a half, as is the line's end
  AlarmMonitor steady{config};
  for (int step = 1; step <= 40; ++step)
    EXPECT_THAT(steady.Observe(Step({.entropy = 2.0 - 0.01 * step})), IsEmpty());
}

TEST(AlarmsTest, KlDriftReadsTheLargerOfTheTwoKls) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .kl = 0.01, .ref_kl = 0.05})), IsEmpty());
  EXPECT_DOUBLE_EQ(monitor.kl_average(), 0.05);
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .kl = 0.9, .ref_kl = 0.05})),
              ElementsAre(Alarm::kKlDrift));
  EXPECT_DOUBLE_EQ(monitor.kl_average(), 0.9 * 0.05 + 0.1 * 0.9);
}

TEST(AlarmsTest, AValueThatHoversAtItsLimitRaisesOneAlarm) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .ref_kl = 0.11})), ElementsAre(Alarm::kKlDrift));
  for (int step = 0; step < 20; ++step) {
    EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .ref_kl = step % 2 == 0 ? 0.09 : 0.11})),
                IsEmpty());
  }
  EXPECT_TRUE(monitor.active(Alarm::kKlDrift));
  for (int step = 0; step < 20; ++step)
    EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .ref_kl = 0.05})), IsEmpty());
  EXPECT_FALSE(monitor.active(Alarm::kKlDrift));
}

TEST(AlarmsTest, AValueThatIsNotFiniteDoesNotCount) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(
      monitor.Observe(Step({.entropy = kNaN, .kl = kNaN, .ref_kl = kNaN, .distinct_share = kNaN})),
      IsEmpty());
  EXPECT_EQ(monitor.kl_average(), 0);
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1, .distinct_share = 0.2})), IsEmpty());
}

TEST(AlarmsTest, ResponsesThatAreAllAlikeRaiseAnAlarmAtTheFifthStep) {
  AlarmMonitor monitor{AlarmConfig()};
  const StepMeasurements alike = Step({.entropy = 1, .distinct_share = 0.2});
  for (int step = 1; step < 5; ++step) EXPECT_THAT(monitor.Observe(alike), IsEmpty()) << step;
  EXPECT_THAT(monitor.Observe(alike), ElementsAre(Alarm::kResponsesAlike));
}

TEST(AlarmsTest, TheShareOfDistinctResponsesHasTheFloorOfTheSetting) {
  AlarmConfig config;
  config.distinct_floor = 0.1;
  AlarmMonitor monitor{config};
  const StepMeasurements alike = Step({.entropy = 1, .distinct_share = 0.2});
  for (int step = 1; step < 10; ++step) EXPECT_THAT(monitor.Observe(alike), IsEmpty()) << step;
}

// Steps of a healthy run, but for one measurement.
StepMeasurements Healthy(double StepMeasurements::*value, double is) {
  StepMeasurements step = Step({.entropy = 1});
  step.acr = 0.5;
  step.acr_effective = 0.4;
  step.acr_expected = 0.5;
  step.groups = 32;
  step.twice_verified = 20;
  step.completions = 100;
  step.truncated_share = 0.05;
  step.length_mean = 200;
  step.*value = is;
  return step;
}

TEST(AlarmsTest, EachShareHasAnAlarmOfItsOwn) {
  struct Row {
    double StepMeasurements::*value;
    double is;
    Alarm alarm;
  };

  for (const Row& row : {Row{&StepMeasurements::acr_effective, 0.95, Alarm::kNoGradient},
                         {&StepMeasurements::acr, 0.7, Alarm::kCollapseUnexplained},
                         {&StepMeasurements::unscorable, 20, Alarm::kUnscorable},
                         {&StepMeasurements::truncated_share, 0.7, Alarm::kTruncated},
                         {&StepMeasurements::disagreement, 0.2, Alarm::kVerifiersDisagree},
                         {&StepMeasurements::misjudged_sources, 1, Alarm::kVerifierControls},
                         {&StepMeasurements::length_mean, 900, Alarm::kLengthDrift},
                         {&StepMeasurements::length_mean, 20, Alarm::kLengthDrift}}) {
    AlarmMonitor monitor{AlarmConfig()};
    for (int step = 0; step < 20; ++step)
      EXPECT_THAT(monitor.Observe(Healthy(&StepMeasurements::kl, 0)), IsEmpty());
    std::vector<Alarm> raised;
    for (int step = 0; step < 40; ++step) {
      for (const Alarm alarm : monitor.Observe(Healthy(row.value, row.is))) raised.push_back(alarm);
    }
    EXPECT_THAT(raised, ElementsAre(row.alarm)) << AlarmName(row.alarm);
  }
}

// Virtual samples give every group a gradient, and hide a run in which no group teaches anything.
TEST(AlarmsTest, CollapseIsSeenBehindVirtualSamples) {
  AlarmMonitor monitor{AlarmConfig()};
  StepMeasurements ruined = Healthy(&StepMeasurements::acr_effective, 0);
  ruined.acr = ruined.acr_expected = 1;
  std::vector<Alarm> raised;
  for (int step = 0; step < 10; ++step) {
    for (const Alarm alarm : monitor.Observe(ruined)) raised.push_back(alarm);
  }
  EXPECT_THAT(raised, ElementsAre(Alarm::kCollapse));
}

// A policy that has solved its task is certain, and its groups are constant: nothing to mend.
TEST(AlarmsTest, OfASolvedTaskOneAlarmSaysSo) {
  AlarmMonitor monitor{AlarmConfig()};
  StepMeasurements solved = Healthy(&StepMeasurements::accuracy, 0.96);
  solved.entropy = 0.01;
  solved.distinct_share = 0.1;
  solved.acr = solved.acr_all_correct = solved.acr_effective = solved.acr_expected = 0.95;
  std::vector<Alarm> raised;
  for (int step = 0; step < 80; ++step) {
    for (const Alarm alarm : monitor.Observe(solved)) raised.push_back(alarm);
  }
  EXPECT_THAT(raised, ElementsAre(Alarm::kSolved));

  // Constant groups that a batch does not keep count as well.
  solved.accuracy = 0.6;
  EXPECT_THAT(monitor.Observe(solved), IsEmpty());
  EXPECT_TRUE(monitor.active(Alarm::kSolved));
  solved.acr_all_correct = 0;
  for (int step = 0; step < 10; ++step) monitor.Observe(solved);
  EXPECT_FALSE(monitor.active(Alarm::kSolved));
  EXPECT_TRUE(monitor.active(Alarm::kCollapse)) << "constant and wrong";
}

// 13 completions at a true rate of 1 % disagree once in one of eight first steps.
TEST(AlarmsTest, AFewDisagreementsAreNoAlarm) {
  AlarmMonitor monitor{AlarmConfig()};
  StepMeasurements step = Healthy(&StepMeasurements::disagreement, 1.0 / 13);
  step.twice_verified = 13;
  EXPECT_THAT(monitor.Observe(step), IsEmpty());
  EXPECT_THAT(monitor.Observe(step), IsEmpty());
}

TEST(AlarmsTest, TheLimitsAreSettings) {
  AlarmConfig config;
  config.acr_limit = config.unscorable_limit = config.truncated_limit = 1;
  config.length_factor = 100;
  config.disagreement_limit = 1;
  AlarmMonitor monitor{config};
  for (int step = 0; step < 40; ++step) {
    StepMeasurements bad = Healthy(&StepMeasurements::acr_effective, 1);
    bad.acr = bad.acr_expected = 1;
    bad.unscorable = 100;
    bad.truncated_share = 1;
    bad.disagreement = 1;
    bad.length_mean = step < 20 ? 200 : 4000;
    EXPECT_THAT(monitor.Observe(bad), IsEmpty()) << step;
  }
}

TEST(AlarmsTest, TheLimitsOfEntropyAndKlAreSettings) {
  AlarmConfig config;
  config.entropy_floor = 1.5;
  config.entropy_steps = 2;
  config.entropy_fall = 0.1;
  config.trend_steps = 4;
  config.kl_limit = 0.01;
  AlarmMonitor monitor{config};
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1.4, .kl = 0.02})), ElementsAre(Alarm::kKlDrift));
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1.3})), IsEmpty());
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1.2})), ElementsAre(Alarm::kEntropyLow));
  EXPECT_THAT(monitor.Observe(Step({.entropy = 1.1})), ElementsAre(Alarm::kEntropyFalling));
}

TEST(AlarmsTest, ADriftFromTheStartModelCountsUntilTheNextMeasurement) {
  AlarmMonitor monitor{AlarmConfig()};
  StepMeasurements step = Healthy(&StepMeasurements::start_kl, 0.2);
  EXPECT_THAT(monitor.Observe(step), ElementsAre(Alarm::kKlDrift));
  EXPECT_THAT(monitor.Observe(Healthy(&StepMeasurements::start_kl, kNaN)), IsEmpty());
  EXPECT_TRUE(monitor.active(Alarm::kKlDrift));
  monitor.Observe(Healthy(&StepMeasurements::start_kl, 0.01));
  EXPECT_FALSE(monitor.active(Alarm::kKlDrift));
}

TEST(AlarmsTest, WhatIsNotMeasuredRaisesNoAlarm) {
  AlarmMonitor monitor{AlarmConfig()};
  for (int step = 0; step < 40; ++step) {
    StepMeasurements lost = Healthy(&StepMeasurements::acr, kNaN);
    lost.acr_effective = lost.truncated_share = lost.length_mean = kNaN;
    lost.completions = 0;
    EXPECT_THAT(monitor.Observe(lost), IsEmpty());
  }
  EXPECT_TRUE(std::isnan(monitor.acr_100()));
}

TEST(AlarmsTest, KnowsTheFirstHundredAndTheLastTwentyFiveRates) {
  AlarmMonitor monitor{AlarmConfig()};
  for (int step = 0; step < 300; ++step)
    monitor.Observe(Healthy(&StepMeasurements::acr, step < 100 ? 0.25 : 0.5));
  EXPECT_DOUBLE_EQ(monitor.acr_100(), 0.25);
  EXPECT_DOUBLE_EQ(monitor.acr_sigma(), 0);
}

}  // namespace
}  // namespace buttress
