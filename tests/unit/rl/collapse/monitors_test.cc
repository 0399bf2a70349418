#include "lib/rl/collapse/monitors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace buttress {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(MonitorsTest, TheLineIsThatOfLeastSquares) {
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

TEST(MonitorsTest, LowEntropyIsAlarmedOnceAfterMoreThanFiftyStepsAndAgainAtItsNextOnset) {
  AlarmMonitor monitor{AlarmConfig()};
  const StepReading low{.entropy = 0.49};
  for (int step = 1; step <= 50; ++step) EXPECT_THAT(monitor.Observe(low), IsEmpty()) << step;
  EXPECT_THAT(monitor.Observe(low), ElementsAre(Alarm::kEntropyLow));
  EXPECT_THAT(monitor.Observe(low), IsEmpty());
  EXPECT_TRUE(monitor.active(Alarm::kEntropyLow));
  EXPECT_THAT(monitor.Observe({.entropy = 0.5}), IsEmpty());
  EXPECT_FALSE(monitor.active(Alarm::kEntropyLow));
  for (int step = 1; step <= 50; ++step) EXPECT_THAT(monitor.Observe(low), IsEmpty());
  EXPECT_THAT(monitor.Observe(low), ElementsAre(Alarm::kEntropyLow));
}

TEST(MonitorsTest, AFallingEntropyIsAlarmedBeforeItIsLow) {
  AlarmConfig config;
  config.trend_steps = 10;
  AlarmMonitor monitor{config};
  std::vector<Alarm> raised;
  int at = 0;
  for (int step = 1; step <= 40 && raised.empty(); ++step) {
    raised = monitor.Observe({.entropy = 2.0 * std::pow(0.92, step)});
    at = step;
  }
  EXPECT_THAT(raised, ElementsAre(Alarm::kEntropyFalling));
  EXPECT_EQ(at, 10);  // 0.92^9 is below a half, as is the line's end
  AlarmMonitor steady{config};
  for (int step = 1; step <= 40; ++step)
    EXPECT_THAT(steady.Observe({.entropy = 2.0 - 0.01 * step}), IsEmpty());
}

TEST(MonitorsTest, KlDriftUsesTheLargerKl) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(monitor.Observe({.entropy = 1, .sampler_kl = 0.01, .reference_kl = 0.05}), IsEmpty());
  EXPECT_DOUBLE_EQ(monitor.kl_average(), 0.05);
  EXPECT_THAT(monitor.Observe({.entropy = 1, .sampler_kl = 0.9, .reference_kl = 0.05}),
              ElementsAre(Alarm::kKlDrift));
  EXPECT_DOUBLE_EQ(monitor.kl_average(), 0.9 * 0.05 + 0.1 * 0.9);
}

TEST(MonitorsTest, AValueAroundItsLimitRaisesOneAlarm) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(monitor.Observe({.entropy = 1, .reference_kl = 0.11}), ElementsAre(Alarm::kKlDrift));
  for (int step = 0; step < 20; ++step) {
    EXPECT_THAT(monitor.Observe({.entropy = 1, .reference_kl = step % 2 == 0 ? 0.09 : 0.11}),
                IsEmpty());
  }
  EXPECT_TRUE(monitor.active(Alarm::kKlDrift));
  for (int step = 0; step < 20; ++step)
    EXPECT_THAT(monitor.Observe({.entropy = 1, .reference_kl = 0.05}), IsEmpty());
  EXPECT_FALSE(monitor.active(Alarm::kKlDrift));
}

TEST(MonitorsTest, ValuesThatAreNotFiniteAreIgnored) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(
      monitor.Observe(
          {.entropy = kNaN, .sampler_kl = kNaN, .reference_kl = kNaN, .distinct_share = kNaN}),
      IsEmpty());
  EXPECT_EQ(monitor.kl_average(), 0);
  EXPECT_THAT(monitor.Observe({.entropy = 1, .distinct_share = 0.2}), IsEmpty());
}

TEST(MonitorsTest, ResponsesThatAreAllAlikeAreAlarmed) {
  AlarmMonitor monitor{AlarmConfig()};
  EXPECT_THAT(monitor.Observe({.entropy = 1, .distinct_share = 0.2}),
              ElementsAre(Alarm::kResponsesAlike));
}

TEST(ResponseProbeTest, CountsDistinctAndWellFormedResponsesOfTheScorable) {
  Group group;
  const auto add = [&](std::vector<std::int32_t> tokens, const std::string& answer,
                       Outcome outcome) {
    Completion& completion = group.completions.emplace_back();
    completion.token_ids = std::move(tokens);
    completion.extracted_answer = answer;
    completion.outcome = outcome;
  };
  add({1, 2}, "2", Outcome::kCorrect);
  add({1, 2}, "2", Outcome::kCorrect);
  add({1, 3}, "", Outcome::kWrong);
  add({9}, "9", Outcome::kUnscorable);
  ResponseProbe probe;
  EXPECT_EQ(probe.distinct_share(), 0);
  probe.Add(group);
  EXPECT_EQ(probe.responses, 3);
  EXPECT_EQ(probe.distinct, 2);
  EXPECT_EQ(probe.formatted, 2);
  probe.Add(group);  // another group with the same texts: distinct within each
  EXPECT_DOUBLE_EQ(probe.distinct_share(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(probe.format_share(), 4.0 / 6);
}

}  // namespace
}  // namespace buttress
