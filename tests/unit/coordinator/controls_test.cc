#include "coordinator/controls.h"

#include <gtest/gtest.h>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr double kLimit = 10000;

// Controls until the alarm, averaged over simulated verifiers of which a share `rate` of the
// verdicts is wrong; at most `most` each.
double MeanRunLength(double rate, double limit, int runs, std::int64_t most) {
  double sum = 0;
  for (int run = 0; run < runs; ++run) {
    RandomStream random({static_cast<std::uint64_t>(run), 7});
    ControlTest test;
    std::int64_t controls = 0;
    while (test.statistic() < limit && controls < most) {
      test.Add(random.Uniform() < rate);
      ++controls;
    }
    sum += static_cast<double>(controls);
  }
  return sum / runs;
}

TEST(ControlTestTest, ADeadVerifierIsFoundWithinFiveControls) {
  ControlTest every;
  for (int i = 0; i < 3; ++i) every.Add(true);
  EXPECT_GE(every.statistic(), kLimit);
  // It calls everything wrong, and so fails on the answers themselves, not on the spoiled ones.
  ControlTest gold_only;
  for (int i = 0; i < 5; ++i) {
    EXPECT_LT(gold_only.statistic(), kLimit);
    gold_only.Add(i % 2 == 0);
  }
  EXPECT_GE(gold_only.statistic(), kLimit);
}

TEST(ControlTestTest, ASoundVerifierRunsLongerThanTheLimit) {
  EXPECT_GE(MeanRunLength(ControlTest::kAllowedFailures, 100, 2000, 100000), 100);
  EXPECT_GE(MeanRunLength(ControlTest::kAllowedFailures, 1000, 500, 100000), 1000);
  EXPECT_EQ(MeanRunLength(0, kLimit, 1, 100000), 100000);
}

TEST(ControlTestTest, RunLengthsOfBrokenVerifiers) {
  const double third = MeanRunLength(.3, kLimit, 2000, 100000);
  const double tenth = MeanRunLength(.1, kLimit, 2000, 100000);
  EXPECT_NEAR(third, 12.3, 1);
  EXPECT_NEAR(tenth, 50.7, 3);
}

class ControlsTest : public ::testing::Test {
 protected:
  void Take(std::uint64_t group, const std::string& source, bool gold, v1::Outcome outcome,
            std::uint64_t epoch = 1) {
    v1::ExchangeRequest request;
    v1::ControlVerdict& verdict = *request.add_controls();
    verdict.mutable_lease()->set_group_id(group);
    verdict.mutable_lease()->set_lease_epoch(epoch);
    verdict.set_source(source);
    verdict.set_gold(gold);
    verdict.set_outcome(outcome);
    controls_.Take(request, metrics_);
  }

  Metrics metrics_{"coordinator"};
  Controls controls_{{.per_step = 1, .prompts = 1, .limit = kLimit}};
};

TEST_F(ControlsTest, EachStepAsksForThemAtChangingPlaces) {
  const Controls controls({.per_step = 3, .prompts = 8});
  std::set<std::uint64_t> places;
  for (std::uint64_t step = 0; step < 20; ++step) {
    int wanted = 0;
    for (std::uint64_t place = 0; place < 8; ++place) {
      if (!controls.Wants(8 * step + place)) continue;
      ++wanted;
      places.insert(place);
    }
    EXPECT_EQ(wanted, 3);
  }
  EXPECT_EQ(places.size(), 8U);
  EXPECT_FALSE(Controls({.per_step = 0, .prompts = 8}).Wants(3));
}

TEST_F(ControlsTest, CountsByWhatIsKnown) {
  Take(1, "b", true, v1::OUTCOME_CORRECT);
  Take(2, "b", false, v1::OUTCOME_WRONG);
  Take(3, "b", false, v1::OUTCOME_CORRECT);
  Take(4, "a", true, v1::OUTCOME_UNSCORABLE);
  Take(5, "c", true, v1::OUTCOME_UNSPECIFIED);
  EXPECT_EQ(controls_.tallies().at("b").controls(), 3U);
  EXPECT_EQ(controls_.tallies().at("b").failed(), 1U);
  EXPECT_EQ(controls_.tallies().at("b").newest_failure().lease().group_id(), 3U);
  EXPECT_EQ(controls_.tallies().at("a").failed(), 1U);
  EXPECT_EQ(controls_.tallies().at("c").controls(), 0U);
}

TEST_F(ControlsTest, ALeaseCountsOnce) {
  for (int call = 0; call < 3; ++call) Take(9, "s", true, v1::OUTCOME_WRONG);
  EXPECT_EQ(controls_.tallies().at("s").controls(), 1U);
  Take(9, "s", true, v1::OUTCOME_WRONG, /*epoch=*/2);
  EXPECT_EQ(controls_.tallies().at("s").controls(), 2U);
  for (std::uint64_t group = 10; group < 6000; ++group) Take(group, "s", true, v1::OUTCOME_CORRECT);
  const std::uint64_t counted = controls_.tallies().at("s").controls();
  Take(9, "s", true, v1::OUTCOME_WRONG);
  Take(5999, "s", true, v1::OUTCOME_CORRECT);
  EXPECT_EQ(controls_.tallies().at("s").controls(), counted);
}

TEST_F(ControlsTest, TheAlarmOfASourceStays) {
  for (std::uint64_t group = 1; group <= 5; ++group) {
    EXPECT_FALSE(group > 1 && controls_.tallies().at("s").alarm());
    Take(group, "s", group % 2 == 1, v1::OUTCOME_WRONG);
    Take(100 + group, "sound", group % 2 == 1,
         group % 2 == 1 ? v1::OUTCOME_CORRECT : v1::OUTCOME_WRONG);
  }
  for (std::uint64_t group = 6; group < 90; ++group) Take(group, "s", true, v1::OUTCOME_CORRECT);
  EXPECT_TRUE(controls_.tallies().at("s").alarm());
  EXPECT_FALSE(controls_.tallies().at("sound").alarm());
}

}  // namespace
}  // namespace buttress
