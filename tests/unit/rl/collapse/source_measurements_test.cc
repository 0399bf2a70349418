#include <gtest/gtest.h>

#include <cmath>

#include "lib/rl/collapse/sources.h"

namespace buttress {
namespace {

TEST(SourceMeasurementsTest, TheSourcesBeyondTheBoundAddUpAndHaveNoGate) {
  std::vector<SourceMeasurements> sources;
  for (int i = 0; i < 34; ++i) {
    SourceMeasurements& source = sources.emplace_back();
    source.source = "s" + std::to_string(10 + i);
    source.collapse = {.groups = 100 - i, .all_wrong = 50 - i, .mixed = 50};
    source.scorable = source.judged = 10;
    source.raw_reward = source.correct = 4;
    source.gate_open = 1;
  }
  SourceNames names;
  const auto reported = ReportedSources(sources, names);
  ASSERT_EQ(reported.size(), kMaxSources + 1);
  const SourceMeasurements& other = reported.front();  // the names are in order
  EXPECT_EQ(other.source, kOtherSources);
  EXPECT_EQ(other.collapse.groups, 68 + 67);
  EXPECT_DOUBLE_EQ(other.acr(), 35.0 / 135);
  EXPECT_DOUBLE_EQ(other.accuracy(), 0.4);
  EXPECT_DOUBLE_EQ(other.raw_reward_mean(), 0.4);
  EXPECT_TRUE(std::isnan(other.gate_open));
  EXPECT_EQ(reported[1].gate_open, 1);
  EXPECT_TRUE(std::isnan(SourceMeasurements().acr()));
  EXPECT_TRUE(std::isnan(SourceMeasurements().accuracy()));
}

}  // namespace
}  // namespace buttress
