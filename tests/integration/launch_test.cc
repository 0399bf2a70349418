// Real programs: one coordinator, two workers, two learner ranks under mpirun.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "lib/ledger/audit.h"
#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"
#include "tests/support/runs/pseudo_terminal.h"

namespace buttress::launch_test {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 12;
constexpr std::int64_t kRunMs = 100000;
constexpr int kGroupsOfAStep = 8;

TEST(LaunchTest, OneCommandTrainsToTheEndAndWritesItsResults) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kSteps, {});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  EXPECT_TRUE(Descendants().empty());
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_EQ(summary["held_out_prompts"], 50);
  EXPECT_EQ(summary["collective"], "mpi");
  EXPECT_EQ(summary["engine"], "embedded");
  const auto& learned = summary["learned"];
  EXPECT_EQ(learned["reward"]["verdict"], "too few steps");
  EXPECT_EQ(learned["held_out"]["before"], summary["accuracy_before"]);
  EXPECT_EQ(learned["held_out"]["after"], summary["accuracy_after"]);
  EXPECT_LT(learned["held_out"]["low"], learned["held_out"]["high"]);
  for (const char* process : {"coordinator", "worker-w0", "worker-w1", "learner/0", "learner/1"}) {
    EXPECT_GT(summary["peak_rss_bytes"].value(process, 0), 1 << 20) << process;
  }
  EXPECT_THAT(TextOf(run.log()), HasSubstr("step 12/12 100%"));

  // `buttress eval` on the model folder reproduces the accuracy of the summary.
  const std::string log = JoinPath(run.out(), "eval.log"), json = JoinPath(run.out(), "eval.json");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "eval", "--model", JoinPath(run.out(), "model"),
                      "--prompts", TinyTask::Get().folder() + "/held_out.jsonl", "--verifier",
                      "countdown", "--use-all", "--max-tokens", "8", "--json", "--out", json},
                     log, kRunMs),
            0)
      << TextOf(log);
  EXPECT_EQ(nlohmann::json::parse(TextOf(json))["accuracy"], summary["accuracy_after"]);
}

// Ctrl-C for a run that `brake` holds, until its learner has left. Workers that wait for the brake
// would not leave in time.
void Interrupt(LaunchedRun& run, const Brake& brake) {
  run.process().Signal(SIGINT);
  EXPECT_TRUE(WaitUntil(kRunMs, [&run] { return run.Pids("learner").empty(); })) << run.Text();
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 130) << run.Text();
}

nlohmann::json StartsOf(const LaunchedRun& run) {
  return nlohmann::json::parse(TextOf(JoinPath(run.out(), "versions.json")))["starts"];
}

bool HasAllDigests(const nlohmann::json& start) {
  for (const char* part : {"programs", "model", "data"}) {
    for (const auto& file : start[part])
      if (!file["sha256"].is_string()) return false;
  }
  return true;
}

TEST(LaunchTest, CtrlCLeavesNoProcessAndTheNextLaunchResumes) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(4);
  LaunchedRun run(kSteps, brake.With({}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(4, kRunMs)) << run.Text();
  // They are made at the lowest priority, and the second start takes over what the first has.
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return HasAllDigests(StartsOf(run).back()); }));
  ASSERT_NO_FATAL_FAILURE(Interrupt(run, brake));
  EXPECT_TRUE(Descendants().empty());
  const auto before = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(before.ok());
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  const auto after = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(after.ok());
  const auto starts = StartsOf(run);
  ASSERT_EQ(starts.size(), 2U);
  for (const auto& start : starts) {
    EXPECT_EQ(start["programs"].size(), 4U);
    EXPECT_TRUE(HasAllDigests(start)) << start.dump();
  }
  // The clean stop wrote a checkpoint, so no step was repeated.
  for (std::size_t i = 0; i < before->size(); ++i)
    EXPECT_EQ((*after)[i].time_unix, (*before)[i].time_unix);
}

// The checkpoint takes longer than the time of a clean stop.
TEST(LaunchTest, CtrlCWaitsForALearnerThatWritesItsCheckpoint) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  ::setenv("BUTTRESS_FAILPOINTS", "before_checkpoint:sleep:15000", 1);
  const Brake brake(2);
  LaunchedRun run(kSteps, brake.With({"--no-eval", "--set", "local.launch.stop_timeout_ms=10000",
                                      "--set", "run.checkpoint_interval=100"}));
  run.Start();
  ::unsetenv("BUTTRESS_FAILPOINTS");
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  ASSERT_NO_FATAL_FAILURE(Interrupt(run, brake));
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  const auto last = static_cast<std::int64_t>(steps->back().step);
  EXPECT_TRUE(std::filesystem::exists(
      JoinPath(run.out(), "checkpoint/step-" + std::to_string(last) + "/checkpoint.json")))
      << run.Text();
}

// The dataset has 90 rows: 12 steps of 8 prompts are an epoch, 23 are two.
TEST(LaunchTest, EpochsGiveTheLengthOfARunAndLengthenIt) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const TempDir folder;
  const std::string rows = TextOf(TinyTask::Get().folder() + "/train.jsonl");
  std::size_t end = 0;
  for (int row = 0; row < 90; ++row) end = rows.find('\n', end) + 1;
  const std::string prompts = JoinPath(folder.path(), "rows.jsonl");
  ASSERT_TRUE(WriteFileAtomic(prompts, rows.substr(0, end)).ok());
  LaunchedRun run(0, {"--no-eval", "--set", "run.data.prompts=" + prompts, "--set",
                      "run.data.held_out=" + prompts, "--set", "run.optim.schedule=linear", "--set",
                      "run.optim.min_lr_ratio=0"});
  const auto to_the_end = [&run](const std::string& epochs, std::int64_t steps) {
    run.Start({"--set", "run.epochs=" + epochs});
    ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
    ExpectStepsInOrder(run, steps);
    EXPECT_THAT(TextOf(run.log()), HasSubstr("/" + std::to_string(steps) + " 100%"));
    const auto records = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
    ASSERT_TRUE(records.ok());
    EXPECT_EQ(records->back().lr, 0);  // at the last step of this length
    EXPECT_GT((*records)[records->size() - 2].lr, 0);
  };
  to_the_end("1", 12);
  EXPECT_THAT(TextOf(run.log()), HasSubstr("launch: warning: run.data.held_out: 90 of 90 held-out "
                                           "prompts are also in run.data.prompts: "));
  to_the_end("2", 23);
  ExpectAccountsBalance(run, 23 * kGroupsOfAStep);
}

// Dynamic sampling with prompt selection, and a coordinator that is killed during the run.
TEST(LaunchTest, ConstantGroupsAreReplacedAndEveryDrawnPromptIsAccountedFor) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kShort = 6, kCap = 1;
  const Brake brake(2);
  LaunchedRun run(kShort, brake.With({"--no-eval", "--set", "run.algorithm.advantage=grpo", "--set",
                                      "run.batch.zero_variance=resample", "--set",
                                      "run.batch.resample.cap=" + std::to_string(kCap), "--set",
                                      "run.data.selection.mode=mopps", "--set",
                                      "local.learner.start_kl.every=3"}));
  run.Start({"--verbose"});
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const std::vector<pid_t> coordinators = run.Pids("coordinator");
  ASSERT_EQ(coordinators.size(), 1U) << run.Text();
  kill(coordinators.front(), SIGKILL);
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kShort);
  ExpectAccountsBalance(run, kShort * kGroupsOfAStep);

  auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(reader.ok());
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  double replaced = 0, kept = 0;
  for (const StepMeasurements& step : *steps) {
    EXPECT_EQ(step.groups, kGroupsOfAStep + step.groups_replaced);
    EXPECT_LE(step.groups_replaced, kCap * kGroupsOfAStep);
    EXPECT_EQ(step.kept_groups + step.groups_replaced + step.groups_masked, step.groups);
    // Without a kept group there is no price.
    EXPECT_EQ(step.drawn_per_kept > 1, step.kept_groups > 0 && step.kept_groups < step.groups);
    ASSERT_EQ(step.sources.size(), 1U);
    EXPECT_EQ(step.sources[0].source, "countdown");
    EXPECT_EQ(static_cast<double>(step.sources[0].collapse.groups), step.groups);
    EXPECT_DOUBLE_EQ(step.sources[0].acr(), step.acr);
    const auto number = static_cast<int>(step.step);
    EXPECT_EQ(std::isfinite(step.start_kl), number == 1 || number % 3 == 0) << number;
    replaced += step.groups_replaced;
    kept += step.kept_groups;
  }
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_EQ(summary["sources"]["countdown"]["groups"], summary["groups_accepted"]);
  EXPECT_EQ(summary["dynamic_sampling"]["groups_drawn"], kShort * kGroupsOfAStep + replaced);
  // The model is nearly always wrong: a group that is kept has a right completion among wrong ones,
  // and in some runs there is none.
  const auto& price = summary["dynamic_sampling"];
  if (kept > 0) {
    EXPECT_GT(price["reward_kept"], price["reward_drawn"]);
    EXPECT_THAT(TextOf(run.log()), HasSubstr(" tokens drawn for each kept)"));
  } else {
    EXPECT_TRUE(price["reward_kept"].is_null()) << price.dump();
  }
  // A model trained for forty steps is wrong about most problems, so most groups are constant.
  EXPECT_GT(replaced, 0);
  EXPECT_EQ(static_cast<double>((*AuditLedger(**reader)).dropped["no_signal"]), replaced);
  EXPECT_GT((*reader)->Skipped()->at("")[static_cast<std::size_t>(SkipReason::kFarther)], 0);
  EXPECT_THAT(TextOf(run.log()), HasSubstr(" replaced, "));
}

// A supervisor that starts the launch again finds a success.
TEST(LaunchTest, AFinishedRunHasNothingToDoAndIsLeftAsItIs) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(2);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const std::string summary = TextOf(JoinPath(run.out(), "summary.json"));
  run.Start();
  EXPECT_EQ(run.Wait(kRunMs), 0);
  EXPECT_THAT(TextOf(run.log()), HasSubstr("is finished since step 2; nothing to do"));
  EXPECT_EQ(TextOf(JoinPath(run.out(), "summary.json")), summary);
}

TEST(LaunchTest, AFolderThatIsNoRunIsNeitherMovedNorFilled) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(2);
  ASSERT_TRUE(MakeFolders(run.out()).ok());
  const std::string thesis = JoinPath(run.out(), "thesis.txt");
  ASSERT_TRUE(WriteFileAtomic(thesis, "years").ok());
  for (const char* flag : {"--fresh", "--no-eval", "--check"}) {
    run.Start({flag});
    EXPECT_EQ(run.Wait(kRunMs), 2) << run.Text();
    EXPECT_EQ(TextOf(thesis), "years");
    EXPECT_FALSE(std::filesystem::exists(run.out() + ".1"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run.out()), {}), 1);
  }
  EXPECT_THAT(TextOf(run.log()), HasSubstr("is not the folder of a run, and holds thesis.txt"));
}

// The lines that a terminal of 100 columns shows in the end.
TEST(LaunchTest, OnATerminalALineIsReplacedAndAResumePrintsNewStepsOnly) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(4);
  LaunchedRun run(kSteps, brake.With({"--no-eval"}));
  run.StartOnTerminal(100);
  ASSERT_TRUE(run.WaitForStep(4, kRunMs)) << run.Text();
  for (const pid_t pid : run.Pids("buttress")) ::kill(pid, SIGINT);
  EXPECT_TRUE(WaitUntil(kRunMs, [&run] { return run.Pids("learner").empty(); })) << run.Text();
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 130) << run.Text();
  const std::string first = TextOf(run.log());
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  const auto stopped = static_cast<std::int64_t>(steps->back().step);
  EXPECT_THAT(first, HasSubstr("the same command continues it from the checkpoint of step " +
                               std::to_string(stopped)));
  run.StartOnTerminal(100);
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const std::string second = TextOf(run.log()).substr(first.size());
  EXPECT_THAT(second, HasSubstr(fmt::format("continues at step {} of {} from the checkpoint of "
                                            "step {}",
                                            stopped + 1, kSteps, stopped)));
  std::int64_t kept = 0;
  ForEachDrawn(first + second, [&](const std::string& line, bool stays) {
    if (!line.starts_with("step ")) return;
    EXPECT_LT(line.size(), 100U) << line;
    kept += stays ? 1 : 0;
  });
  EXPECT_LT(kept, kSteps) << "most lines were replaced";
  ForEachDrawn(second, [&](const std::string& line, bool) {
    if (line.starts_with("step ")) {
      EXPECT_GT(std::atoll(line.c_str() + 5), stopped) << line;
    }
  });
  EXPECT_THAT(second, HasSubstr("12/12"));
}

TEST(LaunchTest, AFinishedRunGoesOnWithMoreStepsButNotAsAnotherRun) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(2, {"--no-eval"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();

  const std::string longer = TinyRunYaml(run.out(), 4);
  std::string other = longer;
  other.replace(other.find("name: tiny"), std::string("name: tiny").size(), "name: other");
  ASSERT_TRUE(WriteFileAtomic(run.yaml(), other).ok());
  run.Start();
  EXPECT_EQ(run.Wait(kRunMs), 2);
  EXPECT_THAT(TextOf(run.log()), HasSubstr("run.name: tiny -> other\n"));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("run.steps: 2 -> 4 (may change)"));

  ASSERT_TRUE(WriteFileAtomic(run.yaml(), longer).ok());
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, 4);
  ExpectAccountsBalance(run, 4 * kGroupsOfAStep);
  EXPECT_THAT(TextOf(run.log()),
              HasSubstr("continues at step 3 of 4 from the checkpoint of step 2"));
  EXPECT_THAT(TextOf(JoinPath(run.out(), "targets.json")), HasSubstr("\"role\": \"learner\""));
}

// A learner that is not registered yet does not hold up the end for the time of a clean stop.
TEST(LaunchTest, ACoordinatorThatCannotStartEndsTheRunAtOnce) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(2, {"--no-eval", "--set", "local.launch.stop_timeout_ms=120000"});
  ASSERT_TRUE(MakeFolders(run.out()).ok());
  ASSERT_TRUE(WriteFileAtomic(JoinPath(run.out(), "ledger.db"), std::string(8192, 'x')).ok());
  run.Start();
  EXPECT_EQ(run.Wait(90000), 4) << run.Text();
  EXPECT_TRUE(Descendants().empty());
}

TEST(LaunchTest, AProcessThatCannotStartEndsTheRunWithItsReason) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(2, {"--no-eval", "--set", "run.data.answer_field=solution"});
  run.Start();
  EXPECT_EQ(run.Wait(kRunMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("solution"));
  EXPECT_TRUE(Descendants().empty());
}

}  // namespace
}  // namespace buttress::launch_test
