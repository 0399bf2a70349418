// The operating commands on a run of real programs: status, cordon, drain, max-age, stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/runs/launched_run.h"

namespace buttress::operate_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 1000000;  // more than are taken
constexpr std::int64_t kRunMs = 100000;

// Checks that the lines of `buttress replay --json` have what the learner wrote about its steps.
void ExpectRepeats(const std::string& lines, const std::vector<StepMeasurements>& records) {
  std::istringstream text(lines);
  std::string line;
  for (const StepMeasurements& record : records) {
    ASSERT_TRUE(std::getline(text, line)) << "no line for step " << record.step;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_EQ(json.value("step", 0.0), record.step) << line;
    EXPECT_EQ(json["acr"], record.acr) << line;
    EXPECT_EQ(json["trained"]["acr_effective"], record.acr_effective) << line;
    EXPECT_EQ(json["trained"], json["replayed"]);
  }
}

class OperateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(TinyTask::Get().error(), "");
    run_.Start();
    ASSERT_TRUE(run_.WaitForStep(3, kRunMs)) << run_.Text();
    // The run takes steps before all of its workers are there.
    for (const char* worker : {"w0", "w1"})
      ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !Worker(worker).is_null(); })) << run_.Text();
  }

  // Exit code of `buttress ARGUMENTS`; what it prints goes to `text_`.
  int Command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SiblingProgram("buttress"));
    const std::string log = JoinPath(dir_.path(), std::to_string(++commands_) + ".log");
    const int code = RunToEnd(arguments, log, kRunMs);
    text_ = TextOf(log);
    return code;
  }

  nlohmann::json StatusOf() {
    EXPECT_EQ(Command({"status", run_.out(), "--json"}), 0) << text_ << run_.Text();
    return nlohmann::json::parse(text_, nullptr, false);
  }

  nlohmann::json Worker(const std::string& id) {
    const nlohmann::json status = StatusOf();
    for (const auto& worker : status["workers"]) {
      if (worker["worker"] == id) return worker;
    }
    return nullptr;
  }

  LaunchedRun run_{kSteps, {"--no-eval"}};
  TempDir dir_;
  int commands_ = 0;
  std::string text_;
};

TEST_F(OperateTest, ADrainedWorkerLeavesAndTheRunGoesOnUntilItIsStoppedAndResumed) {
  EXPECT_EQ(Command({"cordon", run_.yaml(), "w0", "--reason", "noisy fan", "--json"}), 0) << text_;
  EXPECT_EQ(nlohmann::json::parse(text_)["order"], "cordon");
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return Worker("w0")["leases"] == 0; }));
  EXPECT_EQ(Command({"status", run_.yaml()}), 0);
  EXPECT_THAT(text_, HasSubstr("order cordon: noisy fan"));
  const nlohmann::json status = StatusOf();
  EXPECT_GT(status["sources"]["countdown"]["groups"], 0);
  EXPECT_EQ(status["sources"]["countdown"]["groups"], status["collapse"]["groups"]);
  EXPECT_EQ(status["sources"]["countdown"]["acr"], status["acr"]);
  EXPECT_GE(status["newest_steps"]["accuracy"], 0);
  EXPECT_GT(status["newest_steps"]["tokens_per_second"], 0);
  EXPECT_GT(status["newest_steps"]["seconds_left"], 0);
  EXPECT_EQ(Command({"uncordon", run_.out(), "w0"}), 0) << text_;
  EXPECT_EQ(Worker("w0")["order"], "none");

  EXPECT_EQ(Command({"max-age", run_.out(), "3"}), 0) << text_;
  EXPECT_THAT(text_, HasSubstr("may be 3 steps old when they are trained; before: 1"));
  EXPECT_EQ(StatusOf()["max_age"], 3);
  EXPECT_EQ(Command({"max-age", run_.out(), "--configured"}), 0) << text_;
  EXPECT_EQ(StatusOf()["max_age"], 1);

  EXPECT_EQ(Command({"drain", run_.out(), "w1"}), 0) << text_;
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return run_.Pids("rollout_worker").size() == 1; }))
      << run_.Text();
  const auto step = StatusOf()["step"].get<std::int64_t>();
  EXPECT_TRUE(run_.WaitForStep(step + 3, kRunMs)) << "one worker is enough";
  EXPECT_THAT(TextOf(run_.log()), Not(HasSubstr("worker-w1 died")));

  EXPECT_EQ(Command({"stop", run_.out(), "--json"}), 0) << text_ << run_.Text();
  const auto stopped = nlohmann::json::parse(text_);
  EXPECT_EQ(stopped["state"], "stopped");
  EXPECT_EQ(stopped["checkpoint_step"], stopped["step"]);
  ASSERT_EQ(run_.Wait(kRunMs), 130) << run_.Text();
  EXPECT_TRUE(Descendants().empty());
  EXPECT_THAT(TextOf(run_.log()), HasSubstr("the run was stopped after step"));
  const auto records = ReadSteps(JoinPath(run_.out(), "steps.jsonl"));
  EXPECT_EQ(records->back().step, stopped["step"].get<double>());
  EXPECT_EQ(StatusOf()["state"], "not running");
  EXPECT_EQ(StatusOf()["step"], stopped["step"]);
  EXPECT_EQ(StatusOf()["newest_steps"]["step"], stopped["step"]);
  EXPECT_EQ(Command({"status", run_.out()}), 0);
  EXPECT_THAT(text_, AllOf(HasSubstr("/" + std::to_string(kSteps)), HasSubstr("tok/s"),
                           HasSubstr("no coordinator is up"), Not(HasSubstr("TLS"))));
  EXPECT_EQ(Command({"replay", run_.out(), "--json"}), 0) << text_;
  ExpectRepeats(text_, *records);

  run_.Start();
  ASSERT_TRUE(run_.WaitForStep(stopped["step"].get<std::int64_t>() + 2, kRunMs)) << run_.Text();
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return Worker("w1")["order"] == "drain"; }))
      << "an order lasts until it is taken back";
  run_.process().Signal(SIGINT);
  EXPECT_EQ(run_.Wait(kRunMs), 130) << run_.Text();
}

TEST_F(OperateTest, MistakesAreNamed) {
  EXPECT_EQ(Command({"drain", run_.out(), "w7"}), 3);
  EXPECT_THAT(text_, AllOf(HasSubstr("no worker 'w7'"), HasSubstr("w0, w1")));
  EXPECT_EQ(Command({"drain", run_.out()}), 2) << "no worker is named";
  EXPECT_EQ(Command({"max-age", run_.out()}), 2);
  EXPECT_THAT(text_, HasSubstr("expected a number of steps, or --configured"));
  EXPECT_EQ(Command({"max-age", run_.out(), "100000"}), 2);
  EXPECT_THAT(text_, HasSubstr("max_age = 100000; expected at most 256 steps"));
  EXPECT_EQ(Command({"stop", run_.out() + "-other"}), 2);
  EXPECT_EQ(Command({"stop", dir_.path()}), 3);
  EXPECT_THAT(text_, HasSubstr("coordinator.address"));
  for (const pid_t learner : run_.Pids("learner")) kill(learner, SIGSTOP);
  EXPECT_EQ(Command({"stop", run_.out(), "--timeout", "2"}), 3);
  EXPECT_THAT(text_, HasSubstr("wrote no checkpoint within 2 s"));
  EXPECT_EQ(StatusOf()["state"], "stopping");
  for (const pid_t learner : run_.Pids("learner")) kill(learner, SIGCONT);
  EXPECT_EQ(run_.Wait(kRunMs), 130) << "the stop stands" << run_.Text();
}

}  // namespace
}  // namespace buttress::operate_test
