// Real runs whose completions are episodes: of a game that the worker plays, and of an agent that
// is a program of the user's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "lib/measure/eval_files.h"
#include "lib/measure/eval_results.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::episode_run_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRunMs = 150000;
constexpr int kSteps = 10;
constexpr int kGroupsOfAStep = 8;

// Sums as chats, and a model that has seen a little of them.
class SumsTask {
 public:
  static const SumsTask& Get() {
    static const SumsTask task;
    return task;
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  const std::string& error() const { return error_; }

 private:
  SumsTask() {
    std::string rows;
    for (int a = 0; a < 10; ++a) {
      for (int b = 0; a + b < 10; ++b) {
        const nlohmann::json message = {{"role", "user"},
                                        {"content", std::to_string(a) + "+" + std::to_string(b)}};
        rows += nlohmann::json{{"prompt", {message}}, {"answer", std::to_string(a + b)}}.dump();
        rows += '\n';
      }
    }
    EXPECT_TRUE(WriteFileAtomic(Path("sums.jsonl"), rows).ok());
    const std::string buttress = SiblingProgram("buttress"), log = Path("log");
    const std::vector<std::vector<std::string>> commands = {
        {buttress, "new-model", "--out", Path("new"), "--chat", "--characters",
         "0123456789+<>? abcdefghijklmnopqrstuvwxyz", "--layers", "2", "--hidden", "64", "--heads",
         "4", "--intermediate", "128"},
        {buttress, "sft", "--model", Path("new"), "--data", Path("sums.jsonl"), "--response-field",
         "answer", "--out", Path("start"), "--steps", "60", "--batch", "32", "--lr", "3e-3"},
    };
    for (const auto& command : commands) {
      if (RunToEnd(command, log, kRunMs) != 0) error_ = command[1] + " failed: " + TextOf(log);
    }
  }

  TempDir dir_;
  std::string error_;
};

// Three tries at a sum, with a hint behind each that is wrong. Some episodes fail on purpose, with
// an error and without one.
constexpr const char* kAgent = R"py(
import json, os, sys, urllib.error, urllib.request
url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
task = json.loads(os.environ["BUTTRESS_TASK"])
def post(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Authorization": "Bearer " + key})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)
messages = task["prompt"]
if messages[0]["content"] == "1+0":
    try:
        post("/chat/completions", {"model": "gpt-4o", "messages": messages})
    except urllib.error.HTTPError:
        sys.exit()
for attempt in range(3):
    answer = post("/chat/completions", {"messages": messages})["choices"][0]["message"]
    if answer["content"] == task["answer"]:
        post("/reward", {"reward": 1 - 0.3 * attempt})
        sys.exit()
    messages += [answer, {"role": "user", "content": "<"}]
if task["prompt"][0]["content"] == "0+0":
    sys.exit("gave up")
post("/reward", {"reward": 0})
)py";

std::vector<std::string> With(std::vector<std::string> settings) {
  const SumsTask& task = SumsTask::Get();
  settings.insert(settings.end(), {"run.data.prompts=" + task.Path("sums.jsonl"),
                                   "run.data.held_out=", "run.model.path=" + task.Path("start"),
                                   "run.reward.verifier=exact", "run.reward.use_all=false",
                                   "run.sampling.max_tokens=4", "run.env.max_turns=3",
                                   "run.env.max_tokens=64", "run.env.timeout_ms=60000"});
  std::vector<std::string> flags = {"--no-eval"};
  for (const std::string& setting : settings) flags.insert(flags.end(), {"--set", setting});
  return flags;
}

TEST(EpisodeRunTest, WhatEpisodesNeedIsCheckedBeforeARun) {
  ASSERT_EQ(SumsTask::Get().error(), "");
  const TempDir dir;
  const std::string yaml = JoinPath(dir.path(), "run.yaml");
  ASSERT_TRUE(WriteFileAtomic(yaml, TinyRunYaml(JoinPath(dir.path(), "run"), 1)).ok());
  const auto check = [&](std::vector<std::string> settings) {
    std::vector<std::string> argv = {SiblingProgram("rollout_worker"), "--config", yaml, "--check"};
    settings = With(std::move(settings));
    argv.insert(argv.end(), settings.begin() + 1, settings.end());
    const std::string log = JoinPath(dir.path(), "log");
    std::remove(log.c_str());
    RunToEnd(argv, log, kRunMs);
    return TextOf(log);
  };
  EXPECT_THAT(check({"run.env.kind=builtin", "run.env.name=guess"}),
              HasSubstr("its conversations can be encoded"));
  EXPECT_THAT(check({"run.env.kind=exec", "run.env.command=[no-such-agent]"}),
              HasSubstr("'no-such-agent' is not a program"));
  EXPECT_THAT(check({"run.env.kind=builtin"}), HasSubstr("does not show tools"));

  // Nothing is started.
  for (const char* command : {"doctor", "launch"}) {
    std::vector<std::string> argv = {SiblingProgram("buttress"), command, yaml};
    const auto settings = With({"run.env.kind=exec", "run.env.command=[no-such-agent]"});
    argv.insert(argv.end(), settings.begin() + 1, settings.end());
    const std::string log = JoinPath(dir.path(), std::string(command) + ".log");
    EXPECT_EQ(RunToEnd(argv, log, kRunMs), 2);
    EXPECT_THAT(TextOf(log), HasSubstr("'no-such-agent' is not a program on this machine"));
  }
  EXPECT_NE(::access(JoinPath(dir.path(), "run").c_str(), F_OK), 0);
}

// Kills a worker in the middle of the run, which ends nevertheless.
void ExpectTheRunEnds(LaunchedRun& run) {
  run.Start();
  ASSERT_TRUE(run.WaitForStep(3, kRunMs)) << run.Text();
  const std::vector<pid_t> workers = run.Pids("rollout_worker");
  ASSERT_FALSE(workers.empty()) << run.Text();
  ASSERT_EQ(::kill(workers.back(), SIGKILL), 0);
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  EXPECT_TRUE(Descendants().empty());
}

TEST(EpisodeRunTest, AnAgentIsTrainedAndAKilledWorkerLosesOnlyItsLeases) {
  ASSERT_EQ(SumsTask::Get().error(), "");
  const std::string agent = SumsTask::Get().Path("agent.py");
  ASSERT_TRUE(WriteFileAtomic(agent, kAgent).ok());
  LaunchedRun run(kSteps, With({"run.env.kind=exec", "run.env.command=[python3, " + agent + "]"}));
  ASSERT_NO_FATAL_FAILURE(ExpectTheRunEnds(run));
  double unscorable = 0;
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  for (const StepMeasurements& step : *steps) {
    unscorable += step.unscorable;
    EXPECT_GE(step.raw_reward_mean, 0) << step.step;
    EXPECT_LE(step.raw_reward_mean, 1) << step.step;
  }
  EXPECT_GT(unscorable, 0) << "agents that gave up";

  const std::string log = JoinPath(run.out(), "samples");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "samples", run.out(), "--last",
                      std::to_string(kSteps), "--json"},
                     log, kRunMs),
            0)
      << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("the agent exited with status 1: gave up"));
  EXPECT_THAT(TextOf(log), HasSubstr("its last request was refused: model = 'gpt-4o' is not "
                                     "served; expected 'policy'"));
}

TEST(EpisodeRunTest, AGameOfTheWorkerIsTrained) {
  ASSERT_EQ(SumsTask::Get().error(), "");
  LaunchedRun run(kSteps, With({"run.env.kind=builtin", "run.env.name=guess", "run.env.guess_max=9",
                                "run.env.credit=turn"}));
  ASSERT_NO_FATAL_FAILURE(ExpectTheRunEnds(run));
}

// configs/guess.yaml, shortened, with its rows as held-out prompts: before, while and after it
// trains, and once more by the command.
TEST(EpisodeRunTest, AGameIsEvaluatedBeforeWhileAndAfterItIsTrained) {
  const TempDir dir;
  const std::string data = JoinPath(dir.path(), "data"), out = JoinPath(dir.path(), "out"),
                    log = JoinPath(dir.path(), "log"), source = BUTTRESS_SOURCE_DIR,
                    buttress = SiblingProgram("buttress"), rows = data + "/train.jsonl";
  ASSERT_EQ(RunToEnd({"env", "BUTTRESS=" + buttress, source + "/deploy/guess-data.sh", data}, log,
                     kRunMs),
            0)
      << TextOf(log);
  std::vector<std::string> settings = {source + "/configs/guess.yaml"};
  for (const std::string& setting :
       {"run.data.prompts=" + rows, "run.data.held_out=" + rows, "run.model.path=" + data + "/cold",
        "local.out=" + out, std::string("run.steps=4"), std::string("run.eval.every=2"),
        std::string("run.eval.samples=8"), std::string("run.eval.temperature=1")})
    settings.insert(settings.end(), {"--set", setting});
  const auto run = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> argv = {buttress, command};
    argv.insert(argv.end(), settings.begin(), settings.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return RunToEnd(argv, log, kRunMs);
  };
  ASSERT_EQ(run("launch", {}), 0) << TextOf(log) << TextOf(out + "/logs/evaluator.log");
  const auto evaluations = ReadEvals(out);
  ASSERT_TRUE(evaluations.ok()) << evaluations.status().ToString();
  ASSERT_EQ(evaluations->size(), 2U) << TextOf(out + "/logs/evaluator.log");
  for (const EvalRow& row : *evaluations) {
    EXPECT_EQ(row.completions, 64) << "8 games of each number";
    EXPECT_EQ(row.unscorable, 0);
    ASSERT_TRUE(row.episodes.has_value());
    EXPECT_GT(row.episodes->turns, 1);
    EXPECT_LE(row.episodes->turns, 4);
    EXPECT_NEAR(row.episodes->at_limit, 1 - row.accuracy, 1e-12) << "a game is won or at its end";
  }
  for (const char* when : {"before", "after"}) {
    const auto result = nlohmann::json::parse(TextOf(out + "/eval_" + when + ".json"));
    EXPECT_EQ(result["episodes"]["ends"].value("done", 0), result["correct"]);
    EXPECT_EQ(result["episodes"]["ends"].value("turns", 0), result["wrong"]);
  }

  const std::string results = JoinPath(dir.path(), "results.jsonl");
  ASSERT_EQ(run("eval", {"--model", out + "/model", "--prompts", rows, "--completions", "4",
                         "--temperature", "1", "--results", results}),
            0)
      << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("episodes: "));
  const auto record = ReadEvalRecord(results);
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  const EvalResult totals = record->Totals();
  EXPECT_EQ(totals.episodes.episodes, 32);
  EXPECT_EQ(totals.episodes.at_limit(), totals.wrong);
}

}  // namespace
}  // namespace buttress::episode_run_test
