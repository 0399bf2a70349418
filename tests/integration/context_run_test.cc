// Real programs whose ranks divide the rows of their passes: a run, and supervised training.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/runs/launched_run.h"

namespace buttress::context_run_test {
namespace {

constexpr std::int64_t kRunMs = 120000;
constexpr int kSteps = 3;

TEST(ContextRunTest, TheRanksOfARunTrainOnWhatTheWorkersSampled) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kSteps,
                  {"--set", "local.learner.context_parallel=2", "--set", "local.learner.zero=3",
                   "--set", "run.batch.max_age=0", "--set", "run.algorithm.kl_coef=0.01"});
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  for (const StepMeasurements& step : *steps) {
    EXPECT_LT(step.kl, 1e-8);  // from the log-probs of the workers
    EXPECT_GT(step.grad_norm, 0);
    EXPECT_GT(step.trained_tokens, 0);
    EXPECT_LE(step.trained_tokens, step.generated_tokens);
  }
}

// The held-out losses that `learner sft` shows.
std::vector<double> HeldOutLosses(const std::vector<std::string>& before,
                                  const std::vector<std::string>& after) {
  const TinyTask& task = TinyTask::Get();
  const TempDir dir;
  std::vector<std::string> argv = before;
  for (const std::string& word :
       {SiblingProgram("learner"), std::string("sft"), std::string("--model"),
        task.folder() + "/model", std::string("--data"), task.folder() + "/sft.jsonl",
        std::string("--out"), dir.path() + "/model", std::string("--held-out-share"),
        std::string("0.02"), std::string("--steps"), std::string("4"), std::string("--batch"),
        std::string("9"), std::string("--warmup"), std::string("0")})
    argv.push_back(word);
  argv.insert(argv.end(), after.begin(), after.end());
  const std::string log = dir.path() + "/log";
  EXPECT_EQ(RunToEnd(argv, log, kRunMs), 0) << TextOf(log);
  std::vector<double> losses;
  const std::string text = TextOf(log), line = "sft: held-out loss ";
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1))
    losses.push_back(std::stod(text.substr(at + line.size())));
  return losses;
}

TEST(ContextRunTest, SupervisedTrainingEndsWithTheLossesOfOneRank) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::vector<double> one = HeldOutLosses({}, {});
  const std::vector<double> two =
      HeldOutLosses({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"},
                    {"--context-parallel", "2", "--zero", "3"});
  ASSERT_EQ(one.size(), 5u);
  ASSERT_EQ(two.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 2e-4);
  EXPECT_GT(std::abs(one.back() - one.front()), 1e-3);
}

}  // namespace
}  // namespace buttress::context_run_test
