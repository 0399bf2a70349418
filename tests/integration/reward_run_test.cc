// Real runs whose reward functions are the user's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/support/runs/launched_run.h"

namespace buttress::reward_run_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kPatience = 100000;
constexpr int kGroupSize = 4;  // of the tiny run

constexpr const char* kRewards = R"py(
from parts import count

def same_prompt(prompts, completions, completion_ids, answer, trainer_state, **columns):
    print("scoring", len(prompts))
    assert len(prompts) == len(completions) == len(completion_ids) == len(answer)
    assert trainer_state.max_steps > 0
    return [float(count(prompts, p)) for p in prompts]
)py";

class RewardRunTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(TinyTask::Get().error(), "");
    std::filesystem::create_directories(folder_);
    Write("rewards.py", kRewards);
    Write("parts.py", "def count(all, one):\n    return sum(q == one for q in all)\n");
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomic(JoinPath(folder_, name), text).ok());
  }

  std::vector<std::string> With(std::vector<std::string> settings = {}) const {
    std::vector<std::string> argv = {"--no-eval"};
    settings.push_back("run.reward.verifier=python:" + folder_ + "/rewards.py:same_prompt");
    for (const std::string& setting : settings) argv.insert(argv.end(), {"--set", setting});
    return argv;
  }

  TempDir dir_;
  std::string folder_ = dir_.path() + "/my rewards - v1";
};

TEST_F(RewardRunTest, AFunctionSeesEveryGroupAsAWholeAndItsFilesBelongToTheRun) {
  LaunchedRun run(12, With({"run.reward.threads=3", "run.reward.python.workers=2",
                            "run.reward.correct_from=100"}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(3, kPatience)) << run.Text();
  for (const pid_t pid : run.Pids("rollout_worker")) {
    kill(pid, SIGKILL);  // its groups are leased again
    break;
  }
  ASSERT_EQ(run.Wait(kPatience), 0) << run.Text();
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 12U);
  for (const StepMeasurements& step : *steps) {
    EXPECT_EQ(step.raw_reward_mean, kGroupSize) << step.step;
    EXPECT_EQ(step.unscorable, 0) << step.step;
  }
  EXPECT_THAT(TextOf(JoinPath(run.out(), "rewards/rewards.same_prompt.log")),
              HasSubstr("scoring 4\nscoring 4\n"));

  Write("parts.py", "def count(all, one):\n    return -1\n");
  run.Start({"--set", "run.steps=13"});
  EXPECT_EQ(run.Wait(kPatience), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()),
              AllOf(HasSubstr("scored with other files of its reward functions"),
                    HasSubstr(folder_ + "/parts.py\n"), HasSubstr("run.reward.python.revision")));
  run.Start({"--set", "run.steps=13", "--set", "run.reward.python.revision=2"});
  EXPECT_EQ(run.Wait(kPatience), 0) << run.Text();
  ExpectStepsInOrder(run, 13);
}

TEST_F(RewardRunTest, AFunctionThatCannotBeUsedIsFoundBeforeAnythingStarts) {
  const auto launch = [&](const std::vector<std::string>& settings) {
    LaunchedRun run(12, With(settings));
    run.Start();
    EXPECT_EQ(run.Wait(kPatience), 2) << run.Text();
    EXPECT_FALSE(std::filesystem::exists(run.out())) << "something was started";
    return TextOf(run.log());
  };
  EXPECT_THAT(launch({"run.reward.python.interpreter=python9"}), HasSubstr("no program 'python9'"));
  Write("parts.py", "def count(all one):\n    return 1\n");
  EXPECT_THAT(launch({}), HasSubstr("SyntaxError: invalid syntax (parts.py, line 1)"));
  std::filesystem::remove(folder_ + "/parts.py");
  EXPECT_THAT(launch({}), HasSubstr("No module named 'parts' (rewards.py, line 2)"));
  Write("rewards.py", "def other(completions): pass\n");
  EXPECT_THAT(launch({}), HasSubstr("no function 'same_prompt'; the file has other"));
  std::filesystem::remove(folder_ + "/rewards.py");
  EXPECT_THAT(launch({}), HasSubstr("No such file or directory: '" + folder_ + "/rewards.py'"));
}

// Noise that calls every right answer wrong fails the controls, whatever the policy does.
TEST_F(RewardRunTest, ExplainNamesAVerifierThatFailsOnKnownAnswers) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"prompt": "1+)" + std::to_string(i) + R"(:", "answer": "7"})" + "\n";
  Write("prompts.jsonl", rows);
  std::vector<std::string> argv = {"--no-eval"};
  for (const std::string& setting :
       {"run.data.prompts=" + folder_ + "/prompts.jsonl", std::string("run.data.held_out="),
        std::string("run.reward.verifier=exact"), std::string("run.reward.controls.per_step=4"),
        std::string("run.reward.noise.false_negative=1")})
    argv.insert(argv.end(), {"--set", setting});
  LaunchedRun run(12, argv);
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 0) << run.Text();
  const std::string log = JoinPath(dir_.path(), "explained");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "explain", run.out()}, log, kPatience), 0);
  EXPECT_THAT(TextOf(log), HasSubstr("\nconclusion: failed controls, the verifier of 1 data source "
                                     "fails on answers of known verdict"));
}

}  // namespace
}  // namespace buttress::reward_run_test
