// Kills a process of each kind (SIGKILL) during a run: the run ends by itself and the ledger
// balances.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/launched_run.h"

namespace buttress {
namespace {

constexpr int kSteps = 14;
constexpr std::int64_t kRunMs = 120000;
constexpr int kGroupsOfAStep = 8;

void KillDuringARun(const std::string& program, std::int64_t at_step) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kSteps, {"--no-eval"});
  run.Start();
  ASSERT_TRUE(run.WaitForStep(at_step, kRunMs)) << run.Text();
  const std::vector<pid_t> pids = run.Pids(program);
  ASSERT_FALSE(pids.empty()) << program << " does not run";
  ASSERT_EQ(::kill(pids.back(), SIGKILL), 0);
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_GE(summary["restarts"], 1);
  EXPECT_TRUE(Descendants().empty());
}

TEST(KillTest, AKilledWorkerLosesOnlyItsLeases) { KillDuringARun("rollout_worker", 3); }

TEST(KillTest, AKilledCoordinatorRestartsWithEverythingItAcknowledged) {
  KillDuringARun("coordinator", 3);
}

// Step 8 is between the checkpoints of steps 5 and 10: steps 6 to 8 are trained again from the same
// plans.
TEST(KillTest, AKilledLearnerRankRestartsFromTheCheckpointWithTheSameBatches) {
  KillDuringARun("learner", 8);
}

void CrashTheCoordinatorAt(const char* failpoint) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  ::setenv("BUTTRESS_FAILPOINTS", failpoint, 1);
  // The restarted coordinator crashes at the same point again, as often as the groups arrive.
  LaunchedRun run(kSteps, {"--no-eval", "--set", "local.launch.max_restarts=50"});
  run.Start();
  ::unsetenv("BUTTRESS_FAILPOINTS");
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_GE(summary["restarts"], 1);
}

// At most 16 groups are in work, so the run's 112 groups take at least 7 turns.
TEST(KillTest, ACoordinatorKilledBetweenPayloadSyncAndCommitLosesAndRepeatsNothing) {
  CrashTheCoordinatorAt("before_commit:crash:7");
}

TEST(KillTest, ACoordinatorKilledBetweenCommitAndAcknowledgementLosesAndRepeatsNothing) {
  CrashTheCoordinatorAt("after_commit:crash:40");
}

// A sync that fails is not repeated: the coordinator ends and starts again from what is durable.
TEST(KillTest, ACoordinatorWhosePayloadSyncFailsAcknowledgesNothingOfThatTurn) {
  CrashTheCoordinatorAt("payload_sync:fail:7");
}

}  // namespace
}  // namespace buttress
