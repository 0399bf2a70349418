// Real runs that are evaluated while they train, and keep their best checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::eval_run_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRunMs = 120000;
constexpr int kSteps = 12, kPrompts = 10;

std::vector<pid_t> Evaluators(const LaunchedRun& run) {
  std::vector<pid_t> pids;
  for (const pid_t pid : run.Pids("rollout_worker")) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    std::string command;
    std::getline(file, command);
    if (command.find("evaluator") != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

std::vector<EvalRow> RowsOf(const LaunchedRun& run) {
  const auto rows = ReadEvals(run.out());
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  return rows.ok() ? *rows : std::vector<EvalRow>();
}

void ExpectRows(const std::vector<EvalRow>& rows) {
  ASSERT_FALSE(rows.empty());
  for (const EvalRow& row : rows) {
    EXPECT_EQ(row.step % 2, 0);
    EXPECT_EQ(row.prompts, kPrompts);
    EXPECT_EQ(row.completions, kPrompts);
    EXPECT_TRUE(std::isfinite(row.accuracy) && std::isfinite(row.raw_reward_mean));
  }
}

// What the steps hold is of eval.jsonl, and nothing twice.
void ExpectStepsHoldRows(const LaunchedRun& run, const std::vector<EvalRow>& rows) {
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  std::set<double> held;
  for (const StepMeasurements& step : *steps) {
    if (!std::isfinite(step.eval_step)) continue;
    EXPECT_TRUE(held.insert(step.eval_step).second);
    EXPECT_LE(step.eval_step, step.step);
    const auto row =
        std::ranges::find(rows, static_cast<std::int64_t>(step.eval_step), &EvalRow::step);
    ASSERT_TRUE(row != rows.end());
    EXPECT_EQ(step.eval_accuracy, row->accuracy);
    EXPECT_EQ(step.eval_completions, kPrompts);
  }
}

TEST(EvalRunTest, AKilledEvaluatorIsStartedAgainAndTheBestModelIsKept) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(4);
  LaunchedRun run(
      kSteps, brake.With({"--no-eval", "--set", "run.eval.every=2", "--set",
                          "run.eval.prompts=" + std::to_string(kPrompts), "--set",
                          "run.checkpoints.keep_best=1", "--set", "run.checkpoint_interval=2"}));
  run.Start();
  // An evaluator that stands still leaves the weights of step 6 open.
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !Evaluators(run).empty(); })) << run.Text();
  const pid_t evaluator = Evaluators(run).front();
  ASSERT_EQ(kill(evaluator, SIGSTOP), 0);
  brake.HoldAt(6);
  ASSERT_TRUE(run.WaitForStep(6, kRunMs)) << run.Text();
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !ListPendingEvals(run.out()).empty(); }))
      << run.Text();
  ASSERT_EQ(kill(evaluator, SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return TextOf(run.log()).find("evaluator died") != std::string::npos;
  })) << run.Text();
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text() << TextOf(JoinPath(run.out(), "logs/evaluator.log"));
  EXPECT_TRUE(Descendants().empty());
  ExpectStepsInOrder(run, kSteps);
  EXPECT_TRUE(ListPendingEvals(run.out()).empty());
  const std::vector<EvalRow> rows = RowsOf(run);
  ExpectRows(rows);
  ExpectStepsHoldRows(run, rows);

  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_EQ(summary["evaluations"].size(), rows.size());
  EXPECT_GE(summary["restarts"], 1);
  const EvalRow& best = *std::ranges::max_element(rows, {}, &EvalRow::accuracy);
  EXPECT_EQ(summary["best"]["step"], best.step);
  EXPECT_EQ(summary["best"]["value"], best.accuracy);
  EXPECT_THAT(TextOf(run.log()),
              HasSubstr("held-out accuracy after step " + std::to_string(rows.back().step) + ": "));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("best model: of step "));

  // Hugging Face folder: `buttress eval` reads it and finds the same accuracy.
  const std::string json = JoinPath(run.out(), "best.json");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "eval", run.yaml(), "--model",
                      BestModelFolder(run.out()), "--prompts",
                      TinyTask::Get().folder() + "/held_out.jsonl", "--limit",
                      std::to_string(kPrompts), "--json", "--out", json},
                     JoinPath(run.out(), "best.log"), kRunMs),
            0);
  EXPECT_EQ(nlohmann::json::parse(TextOf(json))["accuracy"], best.accuracy);

  // The newest two, the best, and two at most whose evaluation was open.
  const auto kept = CheckpointSteps(JoinPath(run.out(), "checkpoint"));
  ASSERT_GE(kept.size(), 2U);
  EXPECT_LE(kept.size(), 5U);
  EXPECT_EQ(kept[0], kSteps);
  EXPECT_EQ(kept[1], kSteps - 2);
}

TEST(EvalRunTest, TheLastWeightsAreEvaluatedOnce) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(4, {"--set", "run.eval.every=4"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const std::vector<EvalRow> rows = RowsOf(run);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].step, 4);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_EQ(summary["accuracy_after"], rows[0].accuracy);
  EXPECT_EQ(summary["held_out_prompts"], rows[0].prompts);
  const auto after = nlohmann::json::parse(TextOf(JoinPath(run.out(), "eval_after.json")));
  EXPECT_EQ(after["by_row"].size(), 50U) << "for the comparison by prompts with the start model";
  EXPECT_TRUE(std::filesystem::exists(JoinPath(run.out(), "logs/eval_before.log")));
  EXPECT_FALSE(std::filesystem::exists(JoinPath(run.out(), "logs/eval_after.log")));
}

TEST(EvalRunTest, EvaluationsDoNotChangeWhatIsTrained) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  std::string weights;
  for (const char* every : {"0", "1"}) {
    LaunchedRun run(4, {"--no-eval", "--set", "run.deterministic=true", "--set",
                        "run.batch.max_age=0", "--set", std::string("run.eval.every=") + every});
    run.Start();
    ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
    EXPECT_EQ(RowsOf(run).empty(), *every == '0');
    const std::string trained = TextOf(JoinPath(run.out(), "model/model.safetensors"));
    EXPECT_TRUE(weights.empty() || weights == trained);
    weights = trained;
  }
}

// Without evaluations the reward decides, and the learner keeps the best model itself.
TEST(EvalRunTest, WithoutEvaluationsTheBestIsByTheReward) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(8, {"--no-eval", "--set", "run.checkpoints.keep_best=1", "--set",
                      "run.checkpoint_interval=1"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  const auto best = std::ranges::max_element(*steps, {}, &StepMeasurements::raw_reward_mean);
  const auto mark = ReadBest(run.out());
  ASSERT_TRUE(mark.ok() && mark->has_value());
  EXPECT_EQ((*mark)->by, "raw_reward_mean");
  EXPECT_EQ(static_cast<double>((*mark)->step), best->step);
  EXPECT_EQ((*mark)->value, best->raw_reward_mean);
  std::set<std::int64_t> expected = {7, 8, static_cast<std::int64_t>(best->step)};
  const auto kept = CheckpointSteps(JoinPath(run.out(), "checkpoint"));
  EXPECT_EQ(std::set<std::int64_t>(kept.begin(), kept.end()), expected);
}

}  // namespace
}  // namespace buttress::eval_run_test
