// A coordinator and its standby: failover, waits, lag.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/base/os/clock.h"
#include "tests/support/runs/standby_cluster.h"

namespace buttress::standby_test {
namespace {

using ::testing::HasSubstr;

constexpr int kLostAtStep = 20;

TEST(StandbyTest, ARunThatLosesTheCoordinatorsMachineEndsWithTheBitsOfOneThatDoesNot) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string expected = WeightsOfAnUndisturbedRun();
  StandbyCluster cluster;
  const std::string first = FreeAddress(), second = FreeAddress();
  const std::string both = "advertise: \"" + first + "," + second + "\"";
  Process primary = cluster.StartCoordinator("primary", first, "synchronous, standby_wait_ms: 0");
  Process standby = cluster.StartStandby("standby", first);
  cluster.Start("rollout_worker", "worker", both);
  Process learner = cluster.Start("learner", "learner", both);
  ASSERT_TRUE(cluster.WaitForStep(kLostAtStep)) << cluster.Logs();
  EXPECT_THAT(cluster.StandbyStatus("primary"), HasSubstr("synchronous standby: 0 turns behind"));

  primary.Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !primary.Running(); }));
  std::filesystem::remove_all(cluster.Folder("primary"));
  const double lost = MonotonicSeconds();
  Process promoted = cluster.Promote(standby, "standby", second);
  RecordProperty("failover_ms", static_cast<int>((MonotonicSeconds() - lost) * 1000));
  ExpectLearnerEnds(cluster, learner);
  EXPECT_EQ(cluster.FinalWeights(), expected);
  cluster.End(promoted);
  cluster.ExpectCleanAudit("standby");
}

// With standby_wait_ms: 0 a run without its standby stands still, and its operator can see why.
TEST(StandbyTest, ARunThatWaitsForItsStandbyAnswersItsOperator) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  Process primary = cluster.StartCoordinator("primary", address, "synchronous, standby_wait_ms: 0");
  cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  const std::string waits =
      "synchronous standby: away since this coordinator started; turns wait for it";
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return cluster.StandbyStatus("primary") == waits; }))
      << cluster.StandbyStatus("primary") << cluster.Logs();
  for (int asked = 0; asked < 3; ++asked) EXPECT_EQ(cluster.StandbyStatus("primary"), waits);
  EXPECT_EQ(cluster.StepsTrained(), 0);
  Process standby = cluster.StartStandby("standby", address);
  ExpectLearnerEnds(cluster, learner);
  EXPECT_EQ(cluster.StepsTrained(), kSteps);
  standby.Signal(SIGKILL);  // it waits again
  cluster.End(primary);
}

TEST(StandbyTest, AnAsynchronousStandbyThatStandsStillShowsItsLagAndCatchesUp) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  cluster.StartCoordinator("primary", address, "asynchronous");
  const Process standby = cluster.StartStandby("standby", address);
  const std::string level = "asynchronous standby: 0 turns behind";
  const auto is_level = [&] { return cluster.StandbyStatus("primary").starts_with(level); };
  ASSERT_TRUE(WaitUntil(kRunMs, is_level)) << cluster.StandbyStatus("primary") << cluster.Logs();
  standby.Signal(SIGSTOP);
  cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  ASSERT_NO_FATAL_FAILURE(ExpectLearnerEnds(cluster, learner));
  const std::string behind = cluster.StandbyStatus("primary");
  EXPECT_THAT(behind, ::testing::MatchesRegex("asynchronous standby: [1-9].* turns behind.*"));
  standby.Signal(SIGCONT);
  EXPECT_TRUE(WaitUntil(kRunMs, is_level)) << cluster.StandbyStatus("primary") << cluster.Logs();
}

}  // namespace
}  // namespace buttress::standby_test
