// What comes back: a deterministic run that goes back to an older checkpoint, and a worker whose
// run was replaced by another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "lib/base/text/digest.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::resume_test {
namespace {

constexpr int kSteps = 60;
constexpr int kInterval = 3;  // of checkpoints
constexpr std::int64_t kRunMs = 120000;
constexpr int kGroupsOfAStep = 8;
constexpr int kFewPrompts = 40;

void Replace(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
}

// The dataset in place of that of the tiny run, and settings of `run.data` that follow it.
struct Variant {
  std::string prompts;
  std::string data;
};

// Each of few prompts is drawn again and again, unless its groups were constant.
Variant SelectionAmongFewPrompts(const std::string& folder) {
  std::ifstream all(TinyTask::Get().folder() + "/train.jsonl");
  std::string few, row;
  for (int i = 0; i < kFewPrompts && std::getline(all, row); ++i) few += row + "\n";
  const std::string file = JoinPath(folder, "few.jsonl");
  EXPECT_TRUE(WriteFileAtomic(file, few).ok());
  return {file, ", selection: {mode: greso}"};
}

void MakeDeterministic(const LaunchedRun& run, const Variant& variant) {
  std::string yaml = TextOf(run.yaml());
  if (!variant.prompts.empty())
    Replace(yaml, TinyTask::Get().folder() + "/train.jsonl", variant.prompts + variant.data);
  Replace(yaml, "checkpoint_interval: 5",
          "checkpoint_interval: " + std::to_string(kInterval) + "\n  deterministic: true");
  Replace(yaml, "max_age: 1", "max_age: 0, window: 1");
  ASSERT_TRUE(WriteFileAtomic(run.yaml(), yaml).ok());
}

std::string Checkpoints(const LaunchedRun& run) { return JoinPath(run.out(), "checkpoint"); }

// Whether a group is ready that no plan holds.
bool HasReadyGroup(const LaunchedRun& run) {
  const auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  bool found = false;
  if (!reader.ok()) return false;
  const Status read = (*reader)->ForEachGroup([&found](const GroupRecord& record) {
    found = found || record.group.state == GroupState::kReady;
  });
  return read.ok() && found;
}

void Signal(const std::vector<pid_t>& pids, int signal) {
  for (const pid_t pid : pids) ::kill(pid, signal);
}

bool HoldsALease(const LaunchedRun& run, const std::string& worker_id) {
  CoordinatorClient client({"", JoinPath(run.out(), "coordinator.address"), kRunMs});
  const auto status = client.GetRunStatus();
  return status.ok() && std::ranges::any_of(status->workers(), [&](const auto& worker) {
           return worker.worker_id() == worker_id && worker.leases() > 0;
         });
}

// Starts a worker that keeps its leases, and waits until the others have delivered groups of the
// same step: no step is planned for a second, after which they take over the groups that it keeps.
Process StopWithAReadyGroup(const LaunchedRun& run) {
  Process hoarder = *Process::Start({SiblingProgram("broken_worker"), run.out(), "hangs"},
                                    JoinPath(run.out(), "hoarder.log"));
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return HoldsALease(run, "broken") && HasReadyGroup(run); }))
      << run.Text();
  return hoarder;
}

// Kills the learner between two checkpoints, while a group of its next step is ready, and damages
// the newest checkpoint.
void GoBack(const LaunchedRun& run) {
  const auto newest = [&run] {
    const auto steps = CheckpointSteps(Checkpoints(run));
    return steps.empty() ? 0 : steps.front();
  };
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return newest() >= 2 * kInterval; })) << run.Text();
  Process hoarder = StopWithAReadyGroup(run);
  const std::vector<pid_t> ranks = run.Pids("learner");
  Signal(ranks, SIGSTOP);
  const std::string model =
      JoinPath(CheckpointFolderOf(Checkpoints(run), newest()), "rank-0.safetensors");
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int last = file.peek();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
  ASSERT_TRUE(file.flush().good()) << model;
  Signal(ranks, SIGKILL);
  hoarder.Signal(SIGKILL);
}

std::string FinalWeights(const LaunchedRun& run) {
  return Sha256Of(
      TextOf(JoinPath(CheckpointFolderOf(Checkpoints(run), kSteps), "rank-0.safetensors")));
}

// A program of the tiny run in a folder of its own; `coordinator` is the section of that name.
Process StartProgram(const std::string& program, const std::string& out,
                     const std::string& coordinator) {
  EXPECT_TRUE(MakeFolders(out).ok());
  const std::string yaml = out + ".yaml";
  EXPECT_TRUE(
      WriteFileAtomic(yaml, TinyRunYaml(out, kSteps) + "  coordinator: {" + coordinator + "}\n")
          .ok());
  return *Process::Start({SiblingProgram(program), "--config", yaml}, out + ".log");
}

std::string StartCoordinator(const std::string& out, const std::string& listen,
                             std::optional<Process>& process) {
  process = StartProgram("coordinator", out, "listen: \"" + listen + "\"");
  const std::string file = JoinPath(out, "coordinator.address");
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return std::filesystem::exists(file); }))
      << TextOf(out + ".log");
  std::string address = TextOf(file);
  address.pop_back();
  return address;
}

// Two runs of the same file, one after the other at the same address, as `launch --fresh` makes
// them. Versions of both have the same numbers.
TEST(ResumeTest, AWorkerThatOutlivesItsRunJoinsTheNextOneWithNothingOfTheOld) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  SetChildSubreaper();
  const TempDir dir;
  const std::string first = dir.path() + "/first", second = dir.path() + "/second";
  std::optional<Process> coordinator;
  const std::string address = StartCoordinator(first, "127.0.0.1:0", coordinator);
  const std::string advertise = "advertise: \"" + address + "\"";
  Process worker = StartProgram("rollout_worker", dir.path() + "/worker", advertise);
  Process learner = StartProgram("learner", dir.path() + "/l1", advertise);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    const auto steps = ReadSteps(dir.path() + "/l1/steps.jsonl");
    return steps.ok() && steps->size() >= 3;
  })) << TextOf(dir.path() + "/l1.log");
  learner.Signal(SIGKILL);
  coordinator->Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !learner.Running() && !coordinator->Running(); }));

  StartCoordinator(second, address, coordinator);
  Process next = StartProgram("learner", dir.path() + "/l2", advertise);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !next.Running() && !worker.Running(); }))
      << TextOf(dir.path() + "/worker.log") << TextOf(dir.path() + "/l2.log");
  EXPECT_EQ(next.exit_code(), 0) << TextOf(dir.path() + "/l2.log");
  EXPECT_EQ(worker.exit_code(), 0);
  EXPECT_NE(TextOf(dir.path() + "/worker.log").find("another run answers"), std::string::npos);
  coordinator->Signal(SIGTERM);
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return !coordinator->Running(); }));
  const std::string audit = dir.path() + "/audit.log";
  EXPECT_EQ(RunToEnd({SiblingProgram("buttress"), "ledger", "audit", second, "--learner",
                      dir.path() + "/l2"},
                     audit, kRunMs),
            0)
      << TextOf(audit);
  KillDescendants();
}

// Changes the checkpoints while the learner is stopped, and kills it.
void KillAfter(const LaunchedRun& run, const std::function<void()>& change) {
  const std::vector<pid_t> ranks = run.Pids("learner");
  Signal(ranks, SIGSTOP);
  change();
  Signal(ranks, SIGKILL);
}

// The run took no checkpoint of a replaced learner, and ended with the weights of `whole`.
void ExpectPassedOverAndEndedAs(const LaunchedRun& whole, const LaunchedRun& run) {
  EXPECT_NE(run.Text().find("a checkpoint is passed over"), std::string::npos) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  EXPECT_EQ(ToHex(FinalWeights(run)), ToHex(FinalWeights(whole)));
}

// A copy of the checkpoint `step` as one of `late`, under the learner epoch that wrote it.
void CopyCheckpointAs(const LaunchedRun& run, int step, int late) {
  const std::string from = CheckpointFolderOf(Checkpoints(run), step);
  const std::string part = JoinPath(run.out(), "late");
  std::filesystem::copy(from, part);
  std::string state = TextOf(JoinPath(from, kCheckpointStateName));
  Replace(state, "\"step\": " + std::to_string(step), "\"step\": " + std::to_string(late));
  ASSERT_TRUE(WriteFileAtomic(JoinPath(part, kCheckpointStateName), state).ok());
  std::filesystem::remove(JoinPath(part, "accepted"));
  std::filesystem::rename(part, CheckpointFolderOf(Checkpoints(run), late));
}

// Whether the learner of the epoch has trained a step.
bool HasTrained(const LaunchedRun& run, std::uint64_t epoch) {
  const auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  const auto commits = reader.ok() ? (*reader)->Commits() : reader.status();
  return commits.ok() && std::ranges::any_of(*commits, [epoch](const CommitRow& row) {
           return row.learner_epoch == epoch;
         });
}

// The first learner hangs in a checkpoint, which it completes after the second one has started. The
// next checkpoint of that one is damaged: neither of the two newest can be started from.
TEST(ResumeTest, ADamagedCheckpointBehindThatOfAReplacedLearnerLeavesTheOneBeforeThem) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kFirst = 2 * kInterval, kLate = kFirst + 1, kDamaged = 3 * kInterval;
  const Brake brake(kFirst + 2);
  LaunchedRun whole(kSteps, {"--no-eval"}), doubled(kSteps, brake.With({"--no-eval"}));
  MakeDeterministic(whole, {});
  MakeDeterministic(doubled, {});
  whole.Start();
  ASSERT_EQ(whole.Wait(kRunMs), 0) << whole.Text();

  const auto has = [&](int step) {
    return std::filesystem::exists(CheckpointFolderOf(Checkpoints(doubled), step));
  };
  doubled.Start();
  ASSERT_TRUE(doubled.WaitForStep(kFirst + 2, kRunMs)) << doubled.Text();
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return has(kFirst); })) << doubled.Text();
  KillAfter(doubled, [] {});
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return HasTrained(doubled, 2); })) << doubled.Text();
  CopyCheckpointAs(doubled, kFirst, kLate);
  brake.HoldAt(kDamaged + 2);
  // The oldest one is deleted once the coordinator knows the new one.
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return has(kDamaged) && !has(kInterval); }))
      << doubled.Text();
  EXPECT_TRUE(has(kFirst));
  KillAfter(doubled, [&] {
    std::filesystem::resize_file(
        JoinPath(CheckpointFolderOf(Checkpoints(doubled), kDamaged), "rank-0.safetensors"), 8);
  });
  brake.Release();
  ASSERT_EQ(doubled.Wait(kRunMs), 0) << doubled.Text();
  ExpectPassedOverAndEndedAs(whole, doubled);
}

TEST(ResumeTest, ARunThatWentBackEndsWithThePromptsAndBitsOfOneThatDidNot) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const TempDir dir;
  const Variant selection = SelectionAmongFewPrompts(dir.path());
  LaunchedRun whole(kSteps, {"--no-eval"}), interrupted(kSteps, {"--no-eval"});
  MakeDeterministic(whole, selection);
  MakeDeterministic(interrupted, selection);
  whole.Start();
  ASSERT_EQ(whole.Wait(kRunMs), 0) << whole.Text();
  interrupted.Start();
  GoBack(interrupted);
  ASSERT_EQ(interrupted.Wait(kRunMs), 0) << interrupted.Text();
  const auto aside = std::filesystem::directory_iterator(Checkpoints(interrupted));
  EXPECT_TRUE(std::any_of(begin(aside), end(aside), [](const auto& entry) {
    return entry.path().filename().string().starts_with("aside-step-");
  }));
  ExpectStepsInOrder(interrupted, kSteps);
  ExpectAccountsBalance(interrupted, kSteps * kGroupsOfAStep);
  EXPECT_EQ(ToHex(FinalWeights(interrupted)), ToHex(FinalWeights(whole)));
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(interrupted.out(), "summary.json")));
  EXPECT_FALSE(summary["skipped"].empty());
}

}  // namespace
}  // namespace buttress::resume_test
