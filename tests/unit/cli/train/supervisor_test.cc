#include "cli/train/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPatienceMs = 20000;

// Ticks until the supervisor gives up.
Status TickToTheEnd(Supervisor& supervisor) {
  Status status;
  WaitUntil(kPatienceMs, [&] { return !(status = supervisor.Tick()).ok(); });
  return status;
}

TEST(SupervisorTest, AnExitThatARestartCannotMendIsNotRestarted) {
  for (const int code : {2, 4, 6}) {
    const TempDir dir;
    Supervisor supervisor(dir.path(), {.most = 3});
    const std::string script =
        std::string("echo \"learner: the reason\"; exit ") + std::to_string(code);
    ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", script}).ok());
    const Status status = TickToTheEnd(supervisor);
    EXPECT_EQ(ExitCode(status), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("learner: the reason"));
    EXPECT_EQ(supervisor.restarts(), 0);
  }
}

TEST(SupervisorTest, TheRunGoesOnWithoutAnOptionalRole) {
  const TempDir dir;
  Supervisor supervisor(dir.path(), {.most = 0});
  ASSERT_TRUE(
      supervisor.Start("evaluator", {"sh", "-c", "exit 3"}, Supervisor::Need::kOptional).ok());
  EXPECT_FALSE(supervisor.GivenUp("evaluator"));
  ASSERT_TRUE(WaitUntil(kPatienceMs, [&] {
    EXPECT_TRUE(supervisor.Tick().ok());
    return supervisor.GivenUp("evaluator");
  }));
  EXPECT_TRUE(supervisor.Tick().ok());
  EXPECT_FALSE(supervisor.Done("evaluator"));
}

TEST(SupervisorTest, ARunThatLearnsNothingIsNotRestartedAndItsCauseIsTheError) {
  const TempDir dir;
  Supervisor supervisor(dir.path(), {.most = 3});
  const std::string script =
      "echo '2026-01-01T00:00:00.000Z E learner/0 learner leaves why=\"nothing to learn: the "
      "\\\"x\\\" is missing; fix it\"'; echo 'Primary job terminated'; exit 5";
  ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", script}).ok());
  const Status status = TickToTheEnd(supervisor);
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_EQ(status.message(), "nothing to learn: the \"x\" is missing; fix it");
  EXPECT_EQ(supervisor.restarts(), 0);
}

TEST(SupervisorTest, TheCauseIsTheLastLineAndTheBannerOfMpirunIsNotShown) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "learner.log");
  ASSERT_TRUE(WriteFileAtomic(log,
                              "learner: NOT_FOUND: no weights\n-------------------\n"
                              "Primary job  terminated normally\n-------------------\n")
                  .ok());
  EXPECT_EQ(LastErrorInLog(log), "learner: NOT_FOUND: no weights");
}

TEST(SupervisorTest, OfALogWithoutErrorsMpirunsBannerIsOneLine) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "learner.log");
  const std::string line = "2026-01-01T00:00:00.000Z I learner/0 step reward=1\n";
  const std::string dashes = "--------------------------\n";
  const std::string general = dashes + "Primary job  terminated normally, but 1 process\n" + dashes;
  ASSERT_TRUE(WriteFileAtomic(log, line + general).ok());
  EXPECT_EQ(LastErrorInLog(log) + "\n", line);
  ASSERT_TRUE(WriteFileAtomic(log, line + general + dashes +
                                       "mpirun noticed that process rank 1 exited\non signal 9.\n" +
                                       dashes)
                  .ok());
  EXPECT_EQ(LastErrorInLog(log), "mpirun noticed that process rank 1 exited on signal 9.");
}

TEST(SupervisorTest, ALongErrorKeepsItsLastLine) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "coordinator.log");
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += "\n  line " + std::to_string(i) + ": no field 'answer'";
  const std::string begin = "coordinator: INVALID_ARGUMENT: 100 rows cannot be used:";
  ASSERT_TRUE(WriteFileAtomic(log, begin + rows + "\nall of them: out/bad.txt\n").ok());
  const std::string error = LastErrorInLog(log);
  EXPECT_LT(error.size(), 1100U);
  EXPECT_TRUE(error.starts_with(begin + "\n  line 0: no field")) << error;
  EXPECT_TRUE(error.ends_with(": no field 'answer'\n  ...\nall of them: out/bad.txt")) << error;
}

TEST(SupervisorTest, AnotherFailureIsRestartedUpToTheBound) {
  const TempDir dir;
  Supervisor supervisor(dir.path(), {.most = 1});
  ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", "exit 3"}).ok());
  EXPECT_EQ(TickToTheEnd(supervisor).code(), StatusCode::kUnavailable);
  EXPECT_EQ(supervisor.restarts(), 1);
}

class SetClock : public Clock {
 public:
  std::int64_t MonotonicMs() const override { return now_ms_; }

  std::int64_t UnixMs() const override { return now_ms_; }

  void Pass(std::int64_t ms) { now_ms_ += ms; }

 private:
  std::int64_t now_ms_ = 1000;
};

// A role that lives until its file `die` is there, and fails then.
class MortalRole {
 public:
  static constexpr std::int64_t kForgiveMs = 60000;

  MortalRole() { EXPECT_TRUE(supervisor_.Start("learner", {"sh", "-c", script_}).ok()); }

  // Lets it live for `ms`, and returns what the supervisor says of its death: OK if the role was
  // started again.
  Status DieAfter(std::int64_t ms) {
    EXPECT_TRUE(supervisor_.Tick().ok());
    clock_.Pass(ms);
    EXPECT_TRUE(WriteFileAtomic(die_, "").ok());
    const std::size_t said = said_.size();
    Status status;
    EXPECT_TRUE(WaitUntil(kPatienceMs, [&] {
      status = supervisor_.Tick();
      return !status.ok() || said_.size() > said;
    }));
    std::filesystem::remove(die_);
    clock_.Pass(10000);  // longer than any backoff
    return status.ok() ? supervisor_.Tick() : status;
  }

  const std::vector<std::string>& said() const { return said_; }

  int restarts() const { return supervisor_.restarts(); }

 private:
  const TempDir dir_;
  const std::string die_ = JoinPath(dir_.path(), "die");
  const std::string script_ =
      "until [ -e " + die_ + " ]; do sleep 0.02; done; echo learner: bad luck; exit 3";
  SetClock clock_;
  std::vector<std::string> said_;
  Supervisor supervisor_{dir_.path(),
                         {.most = 2, .forgive_ms = kForgiveMs},
                         [this](const std::string& line) { said_.push_back(line); },
                         clock_};
};

TEST(SupervisorTest, ATimeOfHealthForgivesEarlierRestarts) {
  MortalRole role;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(role.DieAfter(0).ok());
    ASSERT_TRUE(role.DieAfter(MortalRole::kForgiveMs).ok());
    EXPECT_THAT(role.said().back(), HasSubstr("restart 1 of 2"));
  }
  EXPECT_EQ(role.restarts(), 6);  // all of them are reported
}

TEST(SupervisorTest, AShorterTimeForgivesNothing) {
  MortalRole role;
  ASSERT_TRUE(role.DieAfter(MortalRole::kForgiveMs - 1).ok());
  ASSERT_TRUE(role.DieAfter(MortalRole::kForgiveMs - 1).ok());
  EXPECT_EQ(role.DieAfter(MortalRole::kForgiveMs - 1).code(), StatusCode::kUnavailable);
}

TEST(SupervisorTest, AStopWaitsAsLongAsItsProcessIsBusy) {
  const Supervisor::Patience none;
  const TempDir dir;
  Supervisor supervisor(dir.path(), {.most = 0});
  const std::string gate = JoinPath(dir.path(), "gate");
  const std::string script = "until [ -e " + gate + " ]; do sleep 0.05; done";
  ASSERT_TRUE(supervisor.Start("learner", {"sh", "-c", script}).ok());
  EXPECT_FALSE(supervisor.Stop("learner", 0, {1, [] { return true; }, 0}));
  ASSERT_TRUE(WriteFileAtomic(gate, "").ok());
  EXPECT_TRUE(supervisor.Stop("learner", 0, {1, [] { return true; }, kPatienceMs}));
  ASSERT_TRUE(supervisor.Start("learner", {"sleep", "60"}).ok());
  EXPECT_FALSE(supervisor.Stop("learner", 0, {1, [] { return false; }, kPatienceMs}));
  EXPECT_TRUE(supervisor.Stop("learner", SIGKILL, {kPatienceMs}));
  supervisor.ExpectExits();
  EXPECT_TRUE(supervisor.Stop("learner", 0, none));
}

}  // namespace
}  // namespace buttress
