// Runs of the real programs next to a worker that is broken: it is set aside, nothing of it is
// trained on, no prompt is dropped for it, and the run trains to its end.
#include <gtest/gtest.h>

#include "lib/rpc/coordinator_client.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::broken_worker_test {
namespace {

constexpr int kSteps = 300;
constexpr int kGroupsOfAStep = 8;
constexpr std::int64_t kRunMs = 240000;

class BrokenWorkerTest : public testing::TestWithParam<const char*> {};

TEST_P(BrokenWorkerTest, TheRunTrainsToItsEndAndTheWorkerIsSetAside) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kSteps, {"--no-eval"});
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "broken.log");
  auto broken = Process::Start({SiblingProgram("broken_worker"), run.out(), GetParam()}, log);
  ASSERT_TRUE(broken.ok()) << broken.status().ToString();
  CoordinatorClient client({"", JoinPath(run.out(), "coordinator.address"), 1000});
  std::string reason;
  EXPECT_TRUE(WaitUntil(kRunMs, [&] {
    const auto status = client.GetRunStatus();
    if (!status.ok()) return !run.process().Running();
    for (const v1::WorkerStatus& worker : status->workers())
      if (worker.worker_id() == "broken") reason = worker.order_reason();
    return !reason.empty();
  })) << run.Text();
  EXPECT_NE(reason.find("set aside: it did not deliver groups"), std::string::npos)
      << reason << TextOf(log) << run.Text();
  EXPECT_EQ(run.Wait(kRunMs), 0) << run.Text();
  broken->Signal(SIGTERM);
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return !broken->Running(); }));
  EXPECT_NE(TextOf(log), "") << "it had leases";
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const Status read = (*reader)->ForEachGroup([](const GroupRecord& record) {
    EXPECT_NE(record.group.reason, DropReason::kPoison) << "group " << record.group.group_id;
    EXPECT_FALSE(record.accepted && record.group.worker_id == "broken");
  });
  EXPECT_TRUE(read.ok()) << read.ToString();
}

INSTANTIATE_TEST_SUITE_P(All, BrokenWorkerTest, testing::Values("rubbish", "hangs", "unable"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace buttress::broken_worker_test
