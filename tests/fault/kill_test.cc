// Kills a process of each kind (SIGKILL) during a run: the run ends by itself and the ledger
// balances.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::kill_test {
namespace {

constexpr int kSteps = 14;
constexpr std::int64_t kRunMs = 120000;
constexpr int kGroupsOfAStep = 8;

// Kills one of the processes of a running run when `launch` has said so.
void KillOne(LaunchedRun& run, const std::string& program) {
  const std::vector<pid_t> pids = run.Pids(program);
  ASSERT_FALSE(pids.empty()) << program << " does not run\n" << run.Text();
  const std::size_t before = TextOf(run.log()).size();
  ASSERT_EQ(::kill(pids.back(), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return TextOf(run.log()).find("; restart ", before) != std::string::npos;
  })) << run.Text();
}

void KillDuringARun(const std::string& program, int at_step) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(at_step);
  LaunchedRun run(kSteps, brake.With({"--no-eval"}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(at_step, kRunMs)) << run.Text();
  ASSERT_NO_FATAL_FAILURE(KillOne(run, program));
  brake.Release();
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

// Steps 8 and 9 are between the checkpoints of steps 5 and 10: the steps from 6 on are trained
// again, from the same plans.
TEST(KillTest, AKilledLearnerRankRestartsFromTheCheckpointWithTheSameBatches) {
  KillDuringARun("learner", 8);
}

// Workers that sample one completion at a time always have unfinished groups. What a killed one has
// reported of them is not sampled again.
TEST(KillTest, AnotherWorkerContinuesTheGroupsOfAKilledOne) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kKills = 20;
  std::vector<std::string> flags = {"--no-eval"};
  for (const char* setting : {"run.async.partial_ms=1", "run.sampling.group_size=96",
                              "local.worker.max_running=1", "local.launch.max_restarts=100"})
    flags.insert(flags.end(), {"--set", setting});
  LaunchedRun run(1000000, flags);
  run.Start();
  const TempDir logs;
  int calls = 0;
  const auto status = [&] {
    const std::string log = JoinPath(logs.path(), std::to_string(++calls));
    RunToEnd({SiblingProgram("buttress"), "status", run.out(), "--json"}, log, kRunMs);
    return nlohmann::json::parse(TextOf(log));
  };
  ASSERT_TRUE(run.WaitForStep(1, kRunMs)) << run.Text();
  nlohmann::json now = status();
  for (int kills = 0; now.value("continued_tokens", 0) == 0 && kills < kKills; ++kills) {
    ASSERT_NO_FATAL_FAILURE(KillOne(run, "rollout_worker"));
    ASSERT_TRUE(WaitUntil(kRunMs, [&] { return run.Pids("rollout_worker").size() == 2; }));
    ASSERT_TRUE(run.WaitForStep(now.value("step", 0) + 2, kRunMs)) << run.Text();
    now = status();
  }
  EXPECT_GT(now.value("continued_tokens", 0), 0);
  ASSERT_TRUE(run.WaitForStep(now.value("step", 0) + 3, kRunMs)) << run.Text();
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "stop", run.out()}, JoinPath(logs.path(), "stop"),
                     kRunMs),
            0);
  EXPECT_EQ(run.Wait(kRunMs), 130) << run.Text();
  const auto audit = *AuditLedger(**LedgerReader::Open(JoinPath(run.out(), "ledger.db")));
  EXPECT_THAT(audit.violations(), ::testing::IsEmpty());
}

// What the coordinator status says of `field`, 0 without a coordinator.
std::int64_t StatusOf(const LaunchedRun& run, const char* field) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "status");
  RunToEnd({SiblingProgram("buttress"), "status", run.out(), "--json"}, log, kRunMs);
  const auto status = nlohmann::json::parse(TextOf(log), nullptr, false);
  return status.is_object() ? status.value(field, std::int64_t{0}) : 0;
}

// The brake leaves groups unfinished, whose reports are an hour away: only a restart of the
// coordinator brings one. What it says is not sampled again when the workers are killed later,
// whatever the step that the groups are for by then (old_tokens). A coordinator that is killed
// before the workers have sampled is told nothing, and is killed again.
TEST(KillTest, ARestartedCoordinatorIsToldOfUnfinishedGroups) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kKills = 20;
  constexpr std::int64_t kToldMs = 5000;
  const Brake brake(2);
  std::vector<std::string> flags = {"--no-eval"};
  for (const char* setting : {"run.async.partial_ms=3600000", "run.async.old_tokens=train",
                              "local.launch.max_restarts=100"})
    flags.insert(flags.end(), {"--set", setting});
  LaunchedRun run(kSteps, brake.With(flags));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  ASSERT_EQ(StatusOf(run, "kept_tokens"), 0);
  bool told = false;
  for (int kills = 0; !told && kills < kKills; ++kills) {
    ASSERT_NO_FATAL_FAILURE(KillOne(run, "coordinator"));
    told = WaitUntil(kToldMs, [&] { return StatusOf(run, "kept_tokens") > 0; });
  }
  ASSERT_TRUE(told) << run.Text();
  for (const pid_t pid : run.Pids("rollout_worker")) ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return StatusOf(run, "continued_tokens") > 0; }))
      << run.Text();
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
}

// Of "lengths" every completion is correct. Its weight is a third of that of "sums".
constexpr int kSumsOfFour = 3;

std::vector<std::string> TwoSources() {
  const std::string& rows = TinyTask::Get().folder() + "/train.jsonl";
  return {"--no-eval",
          "--set",
          "run.data.prompts=",
          "--set",
          "run.data.sources={sums: {prompts: " + rows + ", weight: 3}, lengths: {prompts: " + rows +
              ", verifier: length, max_tokens: 6}}",
          "--set",
          "run.reward.length={unit: characters, min: 0, max: 1000}"};
}

// The drawn prompts are those of a run that was never killed, in the same order.
void ExpectDrawnByWeight(const LaunchedRun& run) {
  auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const auto groups = (*reader)->Groups(1, 100000);
  ASSERT_TRUE(groups.ok());
  std::int64_t sums = 0, drawn = 0;
  for (const GroupRecord& record : *groups) {
    const DrawnPrompt& prompt = record.group.prompt;
    EXPECT_TRUE(prompt.prompt_id.starts_with(prompt.source + "/")) << prompt.prompt_id;
    if (record.accepted) {
      for (const int tokens : record.accepted->head->lengths())
        EXPECT_LE(tokens, prompt.source == "sums" ? 8 : 6);
    }
    sums += prompt.source == "sums" ? 1 : 0;
    ++drawn;
    EXPECT_LE(std::abs(4 * sums - kSumsOfFour * drawn), 4) << drawn;
  }
}

TEST(KillTest, ACoordinatorKilledWhileItDrawsFromTwoSourcesLosesAndRepeatsNothing) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(2);
  LaunchedRun run(kSteps, brake.With(TwoSources()));
  run.Start();
  for (const int step : {2, 6}) {
    brake.HoldAt(step);
    ASSERT_TRUE(run.WaitForStep(step, kRunMs)) << run.Text();
    ASSERT_NO_FATAL_FAILURE(KillOne(run, "coordinator"));
  }
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  ExpectDrawnByWeight(run);
  const auto audit = *AuditLedger(**LedgerReader::Open(JoinPath(run.out(), "ledger.db")));
  const CollapseCounts lengths = audit.recounted_by_source.at("lengths"),
                       sums = audit.recounted_by_source.at("sums");
  EXPECT_EQ(lengths.all_correct, lengths.groups);
  EXPECT_LT(sums.all_correct, sums.groups);
  EXPECT_EQ(lengths.groups + sums.groups, audit.recounted.groups);
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  for (const SourceMeasurements& source : steps->back().sources) {
    EXPECT_TRUE(source.source == "sums" || source.source == "lengths") << source.source;
    if (source.source == "lengths") {
      EXPECT_EQ(source.collapse.acr(), 1);
    }
  }
}

// A sync that fails is not repeated: the coordinator ends and starts again from what is durable, as
// often as the groups arrive.
TEST(KillTest, ACoordinatorWhosePayloadSyncFailsAcknowledgesNothingOfThatTurn) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  ::setenv("BUTTRESS_FAILPOINTS", "payload_sync:fail:7", 1);
  LaunchedRun run(kSteps, {"--no-eval", "--set", "local.launch.max_restarts=50"});
  run.Start();
  ::unsetenv("BUTTRESS_FAILPOINTS");
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_GE(summary["restarts"], 1);
}

// `launch`, which is held up meanwhile, finds learner and coordinator dead at once.
TEST(KillTest, ACoordinatorKilledWhenTheLearnerHasLeftStillTellsHowTheRunEnded) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(2);
  LaunchedRun run(kSteps, brake.With({"--no-eval"}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const std::vector<pid_t> coordinators = run.Pids("coordinator");
  ASSERT_EQ(coordinators.size(), 1U) << run.Text();
  ASSERT_FALSE(run.Pids("mpirun").empty()) << run.Text();
  run.process().Signal(SIGSTOP);
  brake.Release();
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return run.Pids("mpirun").empty(); })) << run.Text();
  ASSERT_EQ(::kill(coordinators.front(), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return run.Pids("coordinator").empty(); }));
  run.process().Signal(SIGCONT);
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_EQ(summary["restarts"], 1);
}

}  // namespace
}  // namespace buttress::kill_test
