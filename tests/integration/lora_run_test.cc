// Real runs that train adapters: what workers and evaluator load, and the folders that they leave.
// And real runs against a start model, in memory and on the disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::lora_run_test {
namespace {

constexpr std::int64_t kRunMs = 120000;
constexpr int kSteps = 4;

std::vector<double> LogprobsOf(const LaunchedRun& run, const std::vector<std::string>& model) {
  static int calls = 0;
  const std::string rows = JoinPath(run.out(), "rows.jsonl"),
                    log = JoinPath(run.out(), "logprobs" + std::to_string(++calls));
  EXPECT_TRUE(WriteFileAtomic(rows, "{\"id\": 1, \"token_ids\": [1, 2, 3, 4, 5, 6]}\n").ok());
  std::vector<std::string> argv = {SiblingProgram("buttress"), "logprobs", rows, "--json"};
  argv.insert(argv.end(), model.begin(), model.end());
  EXPECT_EQ(RunToEnd(argv, log, kRunMs), 0) << TextOf(log);
  return nlohmann::json::parse(TextOf(log))["logprobs"].get<std::vector<double>>();
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), 5u);
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

void ExpectAdapters(const std::string& folder) {
  EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "adapter_config.json"))) << folder;
  EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "adapter_model.safetensors"))) << folder;
  EXPECT_FALSE(std::filesystem::exists(JoinPath(folder, "model.safetensors"))) << folder;
}

TEST(LoraRunTest, WorkersLoadAdaptersAndTheRunLeavesAFolderOfPeft) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kSteps, {"--set", "run.lora.rank=4", "--set", "run.optim.lr=1e-2", "--set",
                           "run.batch.max_age=0", "--set", "run.algorithm.kl_coef=0.01", "--set",
                           "run.eval.every=2", "--set", "run.eval.prompts=10", "--set",
                           "run.checkpoints.keep_best=1"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  const std::string base = TinyTask::Get().folder() + "/model";
  const std::string adapter = JoinPath(run.out(), "model");
  ExpectAdapters(adapter);
  ExpectAdapters(BestModelFolder(run.out()));
  std::size_t versions = 0;
  for (const auto& version : std::filesystem::directory_iterator(JoinPath(run.out(), "weights"))) {
    ExpectAdapters(version.path().string());
    ++versions;
  }
  EXPECT_GT(versions, 0u);

  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  const auto model_bytes =
      static_cast<double>(std::filesystem::file_size(JoinPath(base, "model.safetensors")));
  EXPECT_GT(steps->back().published_bytes, 0);
  EXPECT_LT(steps->back().published_bytes, model_bytes / 4);
  // Workers that sampled from other weights than the learner's would show here.
  EXPECT_LT(steps->back().kl, 1e-8);
  EXPECT_GT(steps->back().ref_kl, 0);
  const auto evaluations = ReadEvals(run.out());
  ASSERT_TRUE(evaluations.ok());
  EXPECT_EQ(evaluations->size(), 2u);

  const auto adapted = LogprobsOf(run, {"--model", base, "--adapter", adapter});
  EXPECT_GT(Distance(adapted, LogprobsOf(run, {"--model", base})), 1e-3);
  const std::string merged = JoinPath(run.out(), "merged"), log = JoinPath(run.out(), "merge.log");
  const std::vector<std::string> merge = {
      SiblingProgram("buttress"), "merge", "--model", base, "--adapter", adapter, "--out", merged};
  ASSERT_EQ(RunToEnd(merge, log, kRunMs), 0) << TextOf(log);
  EXPECT_LT(Distance(adapted, LogprobsOf(run, {"--model", merged})), 1e-4);
  EXPECT_NE(RunToEnd(merge, log, kRunMs), 0);
  EXPECT_NE(TextOf(log).find("already holds a model; name another folder"), std::string::npos);
}

// docs/lora.md: adapters of supervised training, a run that starts from them, a merged model.
TEST(LoraRunTest, ARunStartsFromAnAdapterOfSft) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string task = TinyTask::Get().folder(), base = task + "/model";
  const TempDir dir;
  const std::string adapter = JoinPath(dir.path(), "adapter"),
                    merged = JoinPath(dir.path(), "merged"), log = JoinPath(dir.path(), "log"),
                    buttress = SiblingProgram("buttress");
  const auto done = [&](const std::vector<std::string>& argv) {
    return RunToEnd(argv, log, kRunMs) == 0;
  };
  ASSERT_TRUE(done({buttress, "sft", "--model", base, "--data", task + "/sft.jsonl", "--out",
                    adapter, "--steps", "10", "--batch", "16", "--lr", "1e-2", "--lora-rank", "4"}))
      << TextOf(log);
  const std::vector<std::string> settings = {
      "--set", "run.lora.rank=4",     "--set", "run.lora.adapter=" + adapter,
      "--set", "run.batch.max_age=0", "--set", "run.algorithm.kl_coef=0.01",
      "--set", "run.optim.lr=1e-2",   "--set", "local.learner.zero=3"};
  LaunchedRun run(2, settings);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  for (const StepMeasurements& step : *steps) EXPECT_LT(step.kl, 1e-8);
  // Before the first update the policy is its reference: the base with the adapter.
  EXPECT_EQ(steps->front().ref_kl, 0);
  EXPECT_GT(steps->back().ref_kl, 0);
  const std::string trained = JoinPath(run.out(), "model");
  ASSERT_TRUE(done({buttress, "merge", "--model", base, "--adapter", trained, "--out", merged}))
      << TextOf(log);
  const auto evaluated = [&](const std::vector<std::string>& model) {
    const std::string out = JoinPath(dir.path(), "eval.json");
    std::vector<std::string> argv = {buttress,   "eval",      "--config",
                                     run.yaml(), "--prompts", task + "/held_out.jsonl",
                                     "--out",    out};
    argv.insert(argv.end(), model.begin(), model.end());
    EXPECT_TRUE(done(argv)) << TextOf(log);
    return nlohmann::json::parse(TextOf(out))["by_row"];
  };
  const auto by_row = [&](const char* file) {
    return nlohmann::json::parse(TextOf(JoinPath(run.out(), file)))["by_row"];
  };
  EXPECT_EQ(by_row("eval_before.json"), evaluated({"--model", base, "--adapter", adapter}));
  EXPECT_EQ(by_row("eval_after.json"), evaluated({"--model", merged}));

  LaunchedRun other(2, settings);
  other.Start({"--no-eval", "--set", "run.lora.rank=8"});
  EXPECT_NE(other.Wait(kRunMs), 0);
  EXPECT_NE(other.Text().find("the adapter in " + adapter + " has rank 4, "), std::string::npos)
      << other.Text();
}

TEST(ReferenceRunTest, AStartModelOnTheDiskTrainsTheSameWeights) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  std::string weights;
  for (const char* reference : {"device", "disk"}) {
    LaunchedRun run(
        2, {"--no-eval", "--set", "run.deterministic=true", "--set", "run.batch.max_age=0", "--set",
            "run.algorithm.kl_coef=0.05", "--set", "run.algorithm.kl_in=reward", "--set",
            "local.learner.zero=3", "--set", std::string("local.learner.reference=") + reference});
    run.Start();
    ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
    const std::string trained = TextOf(JoinPath(run.out(), "model/model.safetensors"));
    EXPECT_TRUE(weights.empty() || weights == trained);
    weights = trained;
  }
}

}  // namespace
}  // namespace buttress::lora_run_test
