// Runs of real programs that learn nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/support/runs/launched_run.h"

namespace buttress::futile_run_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kPatience = 100000;

constexpr const char* kRewards = R"py(
import time

def raises(prompts, completions, **columns):
    return [length_of(c) for c in completions]

scored = 0

def hardly_scores(prompts, completions, **columns):
    global scored
    rewards = []
    for completion in completions:
        scored += 1
        rewards.append(1.0 if scored % 50 == 7 else float("nan"))
    return rewards

def half_scores(prompts, completions, **columns):
    return [1.0 if sum(map(ord, prompt)) % 2 else float("nan") for prompt in prompts]

def always_wrong(prompts, completions, **columns):
    return [0.0] * len(completions)

def always_right(prompts, completions, **columns):
    return [1.0] * len(completions)

def slow(prompts, completions, **columns):
    time.sleep(3000)
    return [0.0] * len(completions)
)py";

class FutileRunTest : public testing::Test {
 protected:
  // Settings that score with a function of kRewards.
  std::vector<std::string> With(const std::string& function, std::vector<std::string> more = {}) {
    const std::string path = JoinPath(dir_.path(), "rewards.py");
    EXPECT_TRUE(WriteFileAtomic(path, kRewards).ok());
    std::vector<std::string> argv = {"--no-eval"};
    more.push_back("run.reward.verifier=python:" + path + ":" + function);
    for (const std::string& setting : more) argv.insert(argv.end(), {"--set", setting});
    return argv;
  }

  static std::string LastLine(const std::string& text) {
    const std::size_t end = text.find_last_not_of('\n');
    return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
  }

  TempDir dir_;
};

TEST_F(FutileRunTest, ARewardFunctionThatRaisesEndsTheRunWithItsTraceback) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("raises"));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 5) << run.Text();
  const std::string console = TextOf(run.log());
  EXPECT_THAT(console, HasSubstr("reward function raised NameError"));
  EXPECT_THAT(console, HasSubstr("in raises"));
  EXPECT_THAT(console, HasSubstr("nothing of the first batch could be scored"));
  EXPECT_THAT(console, HasSubstr("reward -  accuracy -  acr -  entropy "));
  EXPECT_THAT(console, HasSubstr("unscorable 100%"));
  EXPECT_THAT(LastLine(console), HasSubstr("nothing to learn: in 5 steps in a row"));
  EXPECT_THAT(LastLine(console), HasSubstr("NameError"));
  const std::size_t cause = console.find("nothing to learn: ");
  EXPECT_EQ(console.find("nothing to learn: ", cause + 1), std::string::npos) << "is said twice";
  EXPECT_THAT(console, Not(HasSubstr("; restart ")));
  EXPECT_FALSE(std::filesystem::exists(JoinPath(run.out(), "model")));
  EXPECT_TRUE(Descendants().empty());
  // Workers and coordinator know why it ended, so that nobody waits for more.
  const std::string log = TextOf(JoinPath(run.out(), "logs/coordinator.log"));
  EXPECT_THAT(log, HasSubstr("the learner has ended the run step=5 why=\"in 5 steps in a row"));
  const std::string status = JoinPath(dir_.path(), "status");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "status", run.out()}, status, kPatience), 0);
  EXPECT_THAT(TextOf(status), HasSubstr("ended, step 5 of 200"));
  EXPECT_THAT(TextOf(status), HasSubstr("the learner ended it: in 5 steps in a row"));
}

TEST_F(FutileRunTest, ARunInWhichHardlyACompletionIsScoredEndsAndSaysThatItDidNotLearn) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("hardly_scores"));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 5) << run.Text();
  const std::string console = TextOf(run.log());
  EXPECT_THAT(LastLine(console), HasSubstr("90 % of the completions or more had no verdict"));
  EXPECT_THAT(console, HasSubstr("did it learn? no: no group taught anything\n"));
  EXPECT_THAT(console, ContainsRegex("0.0 % taught; 9[0-9.]+ % of the completions had no verdict"));
  EXPECT_THAT(console, HasSubstr("cause       unscorable, "));
  EXPECT_THAT(console, HasSubstr("`buttress samples " + run.out() + "` shows why"));
}

TEST_F(FutileRunTest, TheClosingLineCountsUnscorableGroups) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(3, With("half_scores"));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 0) << run.Text();
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  const std::int64_t unscorable = summary["groups_unscorable"];
  EXPECT_GT(unscorable, 0);
  EXPECT_THAT(TextOf(run.log()), HasSubstr("), " + std::to_string(unscorable) + " unscorable\n"));
}

TEST_F(FutileRunTest, AStartModelWithoutARightCompletionIsNamedAtTheFirstBatch) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("always_wrong", {"local.learner.stop_when.uninformative_steps=3"}));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 5) << run.Text();
  const std::string console = TextOf(run.log());
  const std::string notice =
      "learner: first batch: 0 of 8 prompts have a right completion in 4 tries (95 %: 0 to 32 %)";
  EXPECT_THAT(console, HasSubstr(notice));
  EXPECT_EQ(console.find(notice), console.rfind(notice));
  EXPECT_THAT(LastLine(console), HasSubstr("no group of 3 steps in a row had differing"));
}

// Starts the learner a second after a worker has registered with the last start of the coordinator,
// whose log is %LOG%.
constexpr const char* kLateMpirun = R"sh(#!/bin/sh
for try in $(seq 600); do
  awk '/serving/ { n = 0 } /worker registered/ { n = 1 } END { exit !n }' "%LOG%" && break
  sleep 0.1
done
sleep 1
exec mpirun "$@"
)sh";

// Workers that start before the learner of the second launch do not take the end of the first for
// that of theirs.
TEST_F(FutileRunTest, ARunThatHasEndedEarlyIsTakenUpByALaunch) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("raises"));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 5) << run.Text();
  ExpectStepsInOrder(run, 5);
  std::string script = kLateMpirun;
  script.replace(script.find("%LOG%"), 5, JoinPath(run.out(), "logs/coordinator.log"));
  const std::string mpirun = JoinPath(dir_.path(), "late_mpirun");
  ASSERT_TRUE(WriteFileAtomic(mpirun, script).ok());
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  run.Start({"--set", "local.launch.mpirun=" + mpirun});
  ASSERT_EQ(run.Wait(kPatience), 5) << run.Text();
  ExpectStepsInOrder(run, 10);
  const std::string log = TextOf(JoinPath(run.out(), "logs/coordinator.log"));
  EXPECT_THAT(log, HasSubstr("the learner has ended the run step=10 why=\"in 5 steps in a row"));
}

TEST_F(FutileRunTest, ARunWhoseGroupsAreAllCorrectEndsAsASuccess) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("always_right", {"local.learner.stop_when.uninformative_steps=6"}));
  run.Start();
  ASSERT_EQ(run.Wait(kPatience), 0) << run.Text();
  EXPECT_THAT(LastLine(TextOf(run.log())), HasSubstr("nothing left to learn"));
  ExpectStepsInOrder(run, 6);
  EXPECT_TRUE(std::filesystem::exists(JoinPath(run.out(), "model/model.safetensors")));
}

TEST_F(FutileRunTest, TheConsoleNamesWhatASilentRunWaitsFor) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(200, With("slow", {"run.reward.timeout_ms=3600000"}));
  run.Start();
  const auto said = [&](const std::string& text) {
    return TextOf(run.log()).find(text) != std::string::npos;
  };
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return said("with run.reward.verifier"); })) << run.Text();
  for (const pid_t pid : run.Pids("coordinator")) kill(pid, SIGSTOP);
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return said("the coordinator, which does not answer"); }))
      << run.Text();
  run.process().Signal(SIGKILL);
}

// A verifier that can score nothing is not an accuracy of 0.
TEST_F(FutileRunTest, VerifyAndEvalEndWithFiveWhenNothingCanBeScored) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string rewards =
      With("raises").back().substr(std::string("run.reward.verifier=").size());
  const std::string rows = JoinPath(dir_.path(), "rows.jsonl"), log = JoinPath(dir_.path(), "log");
  ASSERT_TRUE(WriteFileAtomic(rows, R"({"prompt": "a", "answer": "1", "response": "1"})"
                                    "\n")
                  .ok());
  const std::string buttress = SiblingProgram("buttress");
  EXPECT_EQ(RunToEnd({buttress, "verify", rows, "--verifier", rewards}, log, kPatience), 5)
      << TextOf(log);
  EXPECT_THAT(LastLine(TextOf(log)), HasSubstr("none of 1 responses could be scored"));
  EXPECT_EQ(RunToEnd({buttress, "verify", rows, "--verifier", "number"}, log, kPatience), 0)
      << TextOf(log);
  EXPECT_EQ(RunToEnd({buttress, "eval", "--model", TinyTask::Get().folder() + "/model", "--prompts",
                      TinyTask::Get().folder() + "/held_out.jsonl", "--verifier", rewards,
                      "--max-tokens", "4", "--limit", "2"},
                     log, kPatience),
            5)
      << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("accuracy - "));
}

TEST_F(FutileRunTest, AProbeTellsBeforeTheRunWhetherItCanLearn) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string yaml = JoinPath(dir_.path(), "run.yaml"), log = JoinPath(dir_.path(), "log"),
                    out = JoinPath(dir_.path(), "run");
  ASSERT_TRUE(WriteFileAtomic(yaml, TinyRunYaml(out, 10)).ok());
  const auto probe = [&](const std::vector<std::string>& more) {
    std::vector<std::string> argv = {SiblingProgram("buttress"), "probe", yaml};
    argv.insert(argv.end(), more.begin(), more.end());
    std::filesystem::remove(log);
    return RunToEnd(argv, log, kPatience);
  };
  EXPECT_EQ(probe({"--set", "run.sampling.group_size=16"}), 0) << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("conclusion: can learn: "));
  EXPECT_THAT(TextOf(log), HasSubstr("200 of 2000 prompts, 16 completions of each"));
  EXPECT_EQ(probe({"--prompts", "20", "--group-size", "8", "--json"}), 0) << TextOf(log);
  const auto json = nlohmann::json::parse(TextOf(log));
  EXPECT_EQ(json["prompts"], 20);
  EXPECT_EQ(json["run"]["completions"], 10 * 8 * 4);
  EXPECT_EQ(json["acr"]["8"]["basis"], "counted");

  const auto with = [&](const std::string& function) {
    std::vector<std::string> settings = With(function);
    settings.erase(settings.begin());  // --no-eval
    return settings;
  };
  EXPECT_EQ(probe(with("always_wrong")), 5) << TextOf(log);
  EXPECT_THAT(LastLine(TextOf(log)), HasSubstr("probe: nothing to learn: at most 1.9 % of the"));
  EXPECT_EQ(probe(with("always_right")), 5) << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("the prompts are solved already"));
  EXPECT_EQ(probe(with("raises")), 5) << TextOf(log);
  EXPECT_THAT(LastLine(TextOf(log)), HasSubstr("the verifier scored no completion"));

  EXPECT_EQ(probe({"--set", "run.sampling.temprature=1"}), 2);
  EXPECT_THAT(TextOf(log), HasSubstr("did you mean 'temperature'"));
  EXPECT_EQ(probe({"--group-size", "1"}), 2);
  EXPECT_EQ(probe({"--model", "x"}), 2);
  EXPECT_THAT(TextOf(log), HasSubstr("add --server"));
  EXPECT_EQ(probe({"--set", "run.data.prompts=" + JoinPath(dir_.path(), "none")}), 2);
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(FutileRunTest, AStartModelWithANanEndsTheRunAndIsNamedWithItsTensor) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string model = JoinPath(dir_.path(), "model");
  std::filesystem::copy(TinyTask::Get().folder() + "/model", model);
  std::string weights = TextOf(JoinPath(model, "model.safetensors"));
  weights.replace(weights.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));  // float32, little-endian
  ASSERT_TRUE(WriteFileAtomic(JoinPath(model, "model.safetensors"), weights).ok());
  LaunchedRun run(4, {"--no-eval", "--set", "run.model.path=" + model});
  run.Start();
  EXPECT_EQ(run.Wait(kPatience), 4) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("the start model " + model + ": "));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("]: 1 NaN and 0 infinite of "));
}

}  // namespace
}  // namespace buttress::futile_run_test
