// Real runs whose folders are damaged and fixed by the commands of `buttress`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/ledger/reader.h"
#include "lib/ledger/segment_file.h"
#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::run_folder_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Runs `launch` on the file of `run` with another folder, and returns the exit code.
int LaunchFork(const LaunchedRun& run, const std::string& from, const std::string& out,
               std::vector<std::string> more, std::string* text) {
  TempDir folder;
  const std::string log = JoinPath(folder.path(), "log");
  std::vector<std::string> argv = {
      SiblingProgram("buttress"), "launch", run.yaml(), "--from", from, "--no-eval", "--set",
      "local.out=" + out};
  argv.insert(argv.end(), more.begin(), more.end());
  const int code = RunToEnd(argv, log, kRunMs);
  *text = TextOf(log);
  return code;
}

// Expects every step once, in order, from `first` to `last`, and a ledger that accounts for them.
void ExpectForkedSteps(const std::string& out, int first, int last) {
  const auto steps = ReadSteps(JoinPath(out, "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(static_cast<int>(steps->size()), last - first + 1);
  for (int i = first; i <= last; ++i)
    EXPECT_EQ((*steps)[static_cast<std::size_t>(i - first)].step, i);
  std::string text;
  ASSERT_EQ(Buttress({"ledger", "audit", out}, &text), 0) << text;
}

// The ids of the prompts that a run drew for a step, in the order of their groups.
std::vector<std::string> PromptsOf(const std::string& out, int step) {
  std::string text;
  EXPECT_EQ(
      Buttress({"samples", out, "--step", std::to_string(step), "--groups", "0", "--json"}, &text),
      0)
      << text;
  std::vector<std::string> prompts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    prompts.push_back(nlohmann::json::parse(line).at("prompt"));
  return prompts;
}

// Two arms of a study: one with the settings of the run, and one that differs from step 6 on.
TEST(RunFolderTest, ANewRunFromACheckpointRepeatsTheStepsOfADeterministicRun) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kShort = 9;
  const std::vector<std::string> same = {
      "--set", "run.deterministic=true",      "--set", "run.batch.max_age=0",
      "--set", "run.checkpoints.keep_last=9", "--set", "run.algorithm.advantage=grpo"};
  std::vector<std::string> arguments = same;
  arguments.emplace_back("--no-eval");
  LaunchedRun run(kShort, arguments);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  TempDir folder;
  const std::string arm = JoinPath(folder.path(), "arm"), other = JoinPath(folder.path(), "other");
  std::string text;
  EXPECT_EQ(LaunchFork(run, run.out() + "@3", arm, same, &text), 2);
  EXPECT_THAT(text, AllOf(HasSubstr("no checkpoint of step 3"), HasSubstr("steps 9, 5")));
  EXPECT_EQ(LaunchFork(run, run.out(), arm, same, &text), 2);
  EXPECT_THAT(text, HasSubstr("raise run.steps"));
  EXPECT_EQ(LaunchFork(run, run.out() + "@5", run.out(), same, &text), 3);
  EXPECT_THAT(text, HasSubstr("is in use"));
  EXPECT_FALSE(std::filesystem::exists(arm + ".part"));

  std::filesystem::create_directories(arm +
                                      ".part/checkpoint/step-4");  // of a start that was killed
  ASSERT_EQ(LaunchFork(run, run.out() + "@5", arm, same, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("prompts continue behind those of that step"));
  ExpectForkedSteps(arm, 6, kShort);
  for (const int step : {6, kShort}) EXPECT_EQ(PromptsOf(arm, step), PromptsOf(run.out(), step));
  EXPECT_NE(PromptsOf(arm, 6), PromptsOf(run.out(), 1));
  const std::string model = "model/model.safetensors";
  EXPECT_TRUE(TextOf(JoinPath(run.out(), model)) == TextOf(JoinPath(arm, model)));

  std::vector<std::string> differing = same;
  differing.insert(differing.end(), {"--set", "run.algorithm.advantage=avspo"});
  ASSERT_EQ(LaunchFork(run, run.out() + "@5", other, differing, &text), 0) << text;
  ExpectForkedSteps(other, 6, kShort);
  EXPECT_FALSE(TextOf(JoinPath(run.out(), model)) == TextOf(JoinPath(other, model)));

  const std::string none = JoinPath(folder.path(), "none");
  std::vector<std::string> smaller = same;
  smaller.insert(smaller.end(), {"--set", "run.model.dtype=bfloat16"});
  EXPECT_EQ(LaunchFork(run, run.out() + "@5", none, smaller, &text), 2);
  EXPECT_THAT(text, HasSubstr("name a model of the same architecture, sizes and dtype"));
  std::filesystem::resize_file(JoinPath(run.out(), "checkpoint/step-9/rank-0.safetensors"), 100);
  EXPECT_EQ(LaunchFork(run, run.out(), none, same, &text), 2);
  EXPECT_THAT(text, HasSubstr("the checkpoint of step 9 cannot be used"));
  EXPECT_FALSE(std::filesystem::exists(none));
}

// The newest ledger is lost; an older one is refused by the learner's checkpoint. The new run is
// killed, and continues by the same command.
TEST(RunFolderTest, ANewRunFromACheckpointWhoseLedgerIsLost) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kLong = 30;
  const Brake brake(12);  // beyond the step of the backup, which is made of a run at work
  const std::vector<std::string> own = brake.With({});
  LaunchedRun run(kLong, brake.With({"--no-eval"}));
  TempDir elsewhere;
  const std::string backup = JoinPath(elsewhere.path(), "backup");
  const std::string next = JoinPath(elsewhere.path(), "next");
  const std::string ledger = JoinPath(run.out(), "ledger.db");
  std::string text;
  run.Start();
  ASSERT_TRUE(run.WaitForStep(7, kRunMs)) << run.Text();
  ASSERT_EQ(Buttress({"backup", run.out(), backup}, &text), 0) << text;
  brake.HoldAt(17);
  ASSERT_TRUE(run.WaitForStep(17, kRunMs)) << run.Text();
  Kill(run);
  std::filesystem::copy_file(JoinPath(backup, "ledger.db"), ledger,
                             std::filesystem::copy_options::overwrite_existing);
  for (const char* log : {"-wal", "-shm"}) std::filesystem::remove(ledger + log);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 4) << run.Text();
  EXPECT_THAT(run.Text(), HasSubstr("buttress launch --from"));

  // The older ledger knows none of the newer checkpoints, so the operator names one.
  EXPECT_EQ(LaunchFork(run, run.out(), next, own, &text), 2) << text;
  const std::string from = run.out() + "@15";
  EXPECT_THAT(text, HasSubstr("name the one to begin with, as in --from " + from));
  std::vector<std::string> argv = {
      SiblingProgram("buttress"), "launch", run.yaml(), "--from", from, "--no-eval", "--set",
      "local.out=" + next};
  argv.insert(argv.end(), own.begin(), own.end());
  const std::string log = JoinPath(elsewhere.path(), "next.log");
  Process first = *Process::Start(argv, log);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    const auto steps = ReadSteps(JoinPath(next, "steps.jsonl"));
    return (steps.ok() && !steps->empty()) || !first.Running();
  })) << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("prompts are drawn from the beginning: its ledger does not"));
  first.Signal(SIGKILL);
  KillDescendants();
  brake.Release();
  ASSERT_EQ(LaunchFork(run, from, next, own, &text), 0) << text;
  EXPECT_THAT(text, HasSubstr("has begun from step 15"));
  ExpectForkedSteps(next, 16, kLong);
}

TEST(RunFolderTest, ARunWhoseFileHasASettingThatIsGoneIsResumed) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kShort = 8;
  const Brake brake(4);
  LaunchedRun run(kShort, brake.With({"--no-eval"}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(4, kRunMs)) << run.Text();
  Kill(run);
  const std::string stored = JoinPath(run.out(), "config.yaml");
  std::string yaml = TextOf(stored), text;
  const std::size_t worker = yaml.find("  worker:\n");
  ASSERT_NE(worker, std::string::npos) << yaml;
  yaml.insert(worker + std::strlen("  worker:\n"), "    gone: true\n");
  ASSERT_TRUE(WriteFileAtomic(stored, yaml).ok());
  EXPECT_EQ(Buttress({"status", run.out()}, &text), 2) << text;
  EXPECT_THAT(text, HasSubstr("local.worker.gone: unknown key"));
  brake.Release();
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("local.worker.gone: unknown key"));
  ExpectStepsInOrder(run, kShort);
  EXPECT_THAT(TextOf(stored), Not(HasSubstr("gone")));
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
  EXPECT_THAT(text, HasSubstr("continue with: buttress launch " + moved + "/config.yaml"));
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
}  // namespace buttress::run_folder_test
