// Real runs whose folders are damaged and mended by the commands of `buttress`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/ledger/reader.h"
#include "lib/ledger/segment_file.h"
#include "tests/support/brake.h"
#include "tests/support/launched_run.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kSteps = 20;
constexpr std::int64_t kRunMs = 120000;

// Runs `buttress` with these arguments; the output is in `text`.
int Buttress(std::vector<std::string> arguments, std::string* text) {
  TempDir folder;
  arguments.insert(arguments.begin(), SiblingProgram("buttress"));
  const std::string log = JoinPath(folder.path(), "log");
  const int code = RunToEnd(arguments, log, 60000);
  *text = TextOf(log);
  return code;
}

// Ends a run as a power cut does.
void Kill(LaunchedRun& run) {
  run.process().Signal(SIGKILL);
  KillDescendants();
  run.Wait(kRunMs);
}

// Ends a run, which `brake` holds there, after `step` or the next one.
void RunAndKill(LaunchedRun& run, const Brake& brake, int step) {
  run.Start();
  ASSERT_TRUE(run.WaitForStep(step, kRunMs)) << run.Text();
  Kill(run);
  brake.Release();
}

// Returns a group, by its position, of a plan that no checkpoint contains.
GroupRecord UnsettledGroup(const std::string& out, std::uint32_t position) {
  auto reader = LedgerReader::Open(JoinPath(out, "ledger.db"));
  GroupRecord found;
  EXPECT_TRUE((*reader)
                  ->ForEachGroup([&](const GroupRecord& record) {
                    const GroupState state = record.group.state;
                    const bool planned =
                        state == GroupState::kBatched || state == GroupState::kTrained;
                    if (planned && record.group.position == position) found = record;
                  })
                  .ok());
  return found;
}

void FlipLastByte(const std::string& out, const PayloadRef& ref) {
  const auto at = static_cast<std::streamoff>(ref.end().offset - 1);
  std::fstream file(SegmentPath(JoinPath(out, "payloads"), ref.segment),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}

// One group is given up by an operator, the other by the coordinator once the learner reads it.
TEST(RunFolderTest, DamagedGroupsOfAPlanAreReplacedAndTheRunEnds) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(7);  // between two checkpoints
  LaunchedRun run(kSteps, brake.With({"--no-eval"}));
  RunAndKill(run, brake, 7);
  const GroupRecord dropped = UnsettledGroup(run.out(), 3);
  const GroupRecord found = UnsettledGroup(run.out(), 5);
  ASSERT_TRUE(dropped.accepted && found.accepted) << "no plan is left behind the checkpoint";
  const std::string by_hand = "group " + std::to_string(dropped.group.group_id);
  const std::string by_itself = "group " + std::to_string(found.group.group_id);
  FlipLastByte(run.out(), dropped.accepted->payload);
  FlipLastByte(run.out(), found.accepted->payload);
  std::string text;
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 4) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(by_hand + " of step"), HasSubstr(by_itself + " of step")));

  const std::string id = std::to_string(dropped.group.group_id);
  ASSERT_EQ(Buttress({"ledger", "drop", run.out(), id, "--reason", "a flipped byte"}, &text), 0)
      << text;
  EXPECT_THAT(text, HasSubstr("its record is kept in"));
  EXPECT_EQ(Buttress({"ledger", "drop", run.out(), id, "--reason", "again"}, &text), 2) << text;

  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  EXPECT_THAT(TextOf(JoinPath(run.out(), "logs/coordinator.log")),
              HasSubstr("a damaged group is given up; another takes its place in the plan"));
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr(by_hand + " was dropped: a flipped byte; at step"));
  EXPECT_THAT(text, ContainsRegex(by_itself + " was dropped: .*its check fails; at step [0-9]+, "
                                              "group [0-9]+ took its place"));
  ASSERT_EQ(Buttress({"ledger", "show", run.out(), id}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("damaged"));
  ASSERT_EQ(Buttress({"explain", run.out(), "--html", "none"}, &text), 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(by_hand + " was dropped: a flipped byte"),
                          HasSubstr(by_itself + " was dropped: ")));
}

// Returns the name of the newest checkpoint's folder.
std::string NewestCheckpoint(const LaunchedRun& run) {
  int newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run.out() + "/checkpoint")) {
    const std::string name = entry.path().filename().string();
    if (int step = 0; std::sscanf(name.c_str(), "step-%d", &step) == 1)
      newest = std::max(newest, step);
  }
  return "step-" + std::to_string(newest);
}

// The run goes on from the checkpoint before it, with the same plans.
TEST(RunFolderTest, ADamagedCheckpointCostsTheStepsAfterTheOneBefore) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(11);
  LaunchedRun run(kSteps, brake.With({"--no-eval"}));
  RunAndKill(run, brake, 11);
  const std::string newest = NewestCheckpoint(run);
  std::filesystem::resize_file(JoinPath(run.out(), "checkpoint/" + newest + "/model.safetensors"),
                               100);
  std::string text;
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("checkpoint"), HasSubstr(newest)));

  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  EXPECT_THAT(TextOf(JoinPath(run.out(), "logs/coordinator.log")),
              HasSubstr("the learner goes back behind the newest checkpoint"));
  EXPECT_TRUE(std::filesystem::exists(JoinPath(run.out(), "checkpoint/damaged-" + newest)));
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 0) << text;
}

// The ledger of step 7 or so goes on where the run was further, because the newest one is lost.
TEST(RunFolderTest, AnOlderLedgerGoesOnFromACheckpointThatItKnows) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kLong = 40;
  const Brake brake(12);  // beyond the step of the backup, which is made of a run at work
  LaunchedRun run(kLong, brake.With({"--no-eval", "--set", "run.checkpoints.keep_last=50"}));
  TempDir elsewhere;
  const std::string backup = JoinPath(elsewhere.path(), "backup");
  const std::string ledger = JoinPath(run.out(), "ledger.db");
  std::string text;
  run.Start();
  ASSERT_TRUE(run.WaitForStep(7, kRunMs)) << run.Text();
  ASSERT_EQ(Buttress({"backup", run.out(), backup}, &text), 0) << text;
  EXPECT_EQ(Buttress({"ledger", "rewind", run.out(), "--reason", "x", "--yes"}, &text), 3) << text;
  EXPECT_THAT(text, HasSubstr("`buttress launch` uses"));
  brake.HoldAt(22);
  ASSERT_TRUE(run.WaitForStep(22, kRunMs)) << run.Text();
  Kill(run);
  brake.Release();
  const std::string newest = NewestCheckpoint(run);
  std::filesystem::copy_file(JoinPath(backup, "ledger.db"), ledger,
                             std::filesystem::copy_options::overwrite_existing);
  for (const char* log : {"-wal", "-shm"}) std::filesystem::remove(ledger + log);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 4) << run.Text();
  EXPECT_THAT(run.Text(), HasSubstr("buttress ledger rewind"));

  const std::vector<std::string> rewind = {"ledger", "rewind", run.out(), "--reason",
                                           "a lost disk"};
  EXPECT_EQ(Buttress(rewind, &text), 2) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("the learner goes on from the checkpoint of step"),
                          HasSubstr("lost: the training of steps"),
                          HasSubstr("checkpoint/" + newest), HasSubstr("add --yes")));
  EXPECT_EQ(NewestCheckpoint(run), newest);
  std::vector<std::string> yes = rewind;
  yes.insert(yes.end(), {"--yes", "--json"});
  ASSERT_EQ(Buttress(yes, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("\"done\":true"));
  EXPECT_NE(NewestCheckpoint(run), newest);
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("groups of a newer ledger are lost: a lost disk"));

  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kLong);
  ExpectAccountsBalance(run, kLong * 8);
  ASSERT_EQ(Buttress({"ledger", "audit", run.out()}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("a lost disk"));
}

TEST(RunFolderTest, ABackupOfALiveRunGoesOnInAnotherFolderAndNothingIsTrainedTwice) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kLong = 24;
  const Brake brake(20);
  TempDir elsewhere;
  const std::string backup = JoinPath(elsewhere.path(), "backup");
  const std::string moved = JoinPath(elsewhere.path(), "moved");
  std::string text;
  {
    LaunchedRun run(kLong, brake.With({"--no-eval"}));
    run.Start();
    ASSERT_TRUE(run.WaitForStep(12, kRunMs)) << run.Text();
    ASSERT_EQ(Buttress({"backup", run.out(), backup}, &text), 0) << text;
    Kill(run);
    brake.Release();
    std::filesystem::remove_all(run.out());
  }
  EXPECT_EQ(Buttress({"backup", backup, backup}, &text), 3) << text;  // exists
  ASSERT_EQ(Buttress({"restore", backup, moved}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("go on with: buttress launch " + moved + "/config.yaml"));
  ASSERT_EQ(Buttress({"ledger", "audit", moved}, &text), 0) << text;

  const std::string log = JoinPath(elsewhere.path(), "launch.log");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "launch", moved + "/config.yaml", "--no-eval"},
                     log, kRunMs),
            0)
      << TextOf(log);
  const auto steps = ReadSteps(JoinPath(moved, "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), kLong);
  for (int i = 0; i < kLong; ++i) EXPECT_EQ((*steps)[static_cast<std::size_t>(i)].step, i + 1);
  ASSERT_EQ(Buttress({"ledger", "audit", moved}, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("24 settled; finished"));
  EXPECT_THAT(text, HasSubstr("everything that was acknowledged is accounted for"));
}

}  // namespace
}  // namespace buttress
