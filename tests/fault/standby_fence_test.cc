// A coordinator that lives on after its standby was started in its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/ledger/reader.h"
#include "tests/support/runs/standby_cluster.h"

namespace buttress::standby_test {
namespace {

using ::testing::HasSubstr;

constexpr int kPausedAtStep = 15;
constexpr int kTakenOverAtStep = 20;
constexpr int kBeforeTheSecondLoss = 30;

std::uint64_t CommittedStep(const std::string& folder) {
  const auto reader = LedgerReader::Open(folder + "/ledger.db");
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return (*reader)->Run()->value().committed_step;
}

// The old one is paused, wakes up once the new one has taken over, and is the only one that
// answers while the new one restarts. It goes on alone after its wait, so that nothing but the
// fence keeps it from leading the run: worker and learner would rather train with it than wait.
TEST(StandbyFenceTest, ACoordinatorThatWakesUpBehindItsStandbyTrainsNothing) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string expected = WeightsOfAnUndisturbedRun();
  StandbyCluster cluster;
  const std::string first = FreeAddress(), second = FreeAddress();
  const std::string both = "advertise: \"" + first + "," + second + "\"";
  Process old = cluster.StartCoordinator("primary", first, "synchronous, standby_wait_ms: 500");
  Process standby = cluster.StartStandby("standby", first);
  cluster.Start("rollout_worker", "worker", both);
  Process learner = cluster.Start("learner", "learner", both);
  ASSERT_TRUE(cluster.WaitForStep(kPausedAtStep)) << cluster.Logs();

  old.Signal(SIGSTOP);
  Process promoted = cluster.Promote(standby, "standby", second);
  ASSERT_TRUE(cluster.WaitForStep(kTakenOverAtStep)) << cluster.Logs();
  old.Signal(SIGCONT);
  const std::uint64_t at_pause = CommittedStep(cluster.Folder("primary"));
  ASSERT_TRUE(cluster.WaitForStep(kBeforeTheSecondLoss)) << cluster.Logs();

  promoted.Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return cluster.Logs().find("stop this one") != std::string::npos;
  })) << cluster.Logs();
  promoted = cluster.StartCoordinator("standby", second, "off");
  ASSERT_NO_FATAL_FAILURE(ExpectLearnerEnds(cluster, learner));
  EXPECT_EQ(cluster.FinalWeights(), expected);
  // What was on its way when it was paused it may have taken: one step.
  EXPECT_LE(CommittedStep(cluster.Folder("primary")), at_pause + 1);
  EXPECT_TRUE(old.Running());
  cluster.End(old);
  cluster.End(promoted);
  cluster.ExpectCleanAudit("standby");
}

}  // namespace
}  // namespace buttress::standby_test
