// Kills a real coordinator at each of its failpoints and starts it again: the run, whose worker and
// learner another process plays (tests/support/runs/played_run.cc), continues to its end and the
// ledger
// balances. A run that its learner has ended early stays ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>

#include "lib/ledger/audit.h"
#include "lib/ledger/reader.h"
#include "tests/support/runs/quickstart_run.h"

namespace buttress::coordinator_failpoints_test {
namespace {

constexpr int kSteps = 3, kPrompts = 2;
constexpr std::int64_t kWaitMs = 60000;
constexpr int kKilled = 128 + SIGKILL;

// In the order in which a run reaches them.
constexpr const char* kPoints[] = {
    "folder_sync",   "file_write",       "file_sync",           "file_rename",      "ledger_commit",
    "payload_roll",  "ledger_committed", "payload_folder_sync", "payload_write",    "payload_sync",
    "before_commit", "after_commit",     "payload_delete",      "payload_truncate",
};

// Reached where a run is taken up again, and not before.
constexpr const char* kAtRestart = "payload_truncate";

// A model and prompts, made once.
class Input {
 public:
  static const Input& Get() {
    static const Input input;
    return input;
  }

  // Of a run in the folder `out`. Each group has a segment of payloads of its own.
  std::string Yaml(const std::string& out) const {
    return "run:\n  name: played\n  steps: " + std::to_string(kSteps) +
           "\n  checkpoint_interval: 1\n  data: {prompts: " + dir_.path() +
           "/prompts.jsonl}\n  model: {path: " + dir_.path() +
           "/model}\n  sampling: {group_size: 2, max_tokens: 8}\n  batch: {prompts: " +
           std::to_string(kPrompts) +
           ", max_age: 1}\n  reward: {verifier: exact}\nlocal:\n  out: " + out +
           "\n  coordinator: {payload_segment_bytes: 1, page: off}\n";
  }

  bool made() const { return made_; }

 private:
  Input() {
    std::string rows;
    for (int i = 0; i < 100; ++i)
      rows += "{\"id\": \"p" + std::to_string(i) + "\", \"prompt\": \"1+1:\", \"answer\": \"2\"}\n";
    made_ = WriteFileAtomic(dir_.path() + "/prompts.jsonl", rows).ok() &&
            RunToEnd({SiblingProgram("buttress"), "new-model", "--out", dir_.path() + "/model",
                      "--characters", "0123456789+-:>", "--layers", "1", "--hidden", "16",
                      "--heads", "1", "--intermediate", "16"},
                     dir_.path() + "/log", kWaitMs) == 0;
  }

  TempDir dir_;
  bool made_ = false;
};

class PlayedRun {
 public:
  // `player`: further arguments of the player.
  explicit PlayedRun(const std::vector<std::string>& player = {}) {
    EXPECT_TRUE(WriteFileAtomic(yaml(), Input::Get().Yaml(out())).ok());
    std::vector<std::string> arguments = {yaml()};
    arguments.insert(arguments.end(), player.begin(), player.end());
    player_ = Start("played_run", arguments);
  }

  ~PlayedRun() { KillDescendants(); }

  PlayedRun(const PlayedRun&) = delete;
  PlayedRun& operator=(const PlayedRun&) = delete;

  // `failpoints`: "" for none.
  void StartCoordinator(const std::string& failpoints) {
    std::filesystem::remove(address());
    ::setenv("BUTTRESS_FAILPOINTS", failpoints.c_str(), 1);
    coordinator_ = Start("coordinator", {"--config", yaml()});
    ::unsetenv("BUTTRESS_FAILPOINTS");
  }

  // Waits until the coordinator dies, or the run has ended. Returns whether it was killed.
  bool WaitForDeath() {
    EXPECT_TRUE(WaitUntil(kWaitMs, [this] {
      return !coordinator_->Running() || !player_->Running();
    })) << Text();
    // A coordinator may be killed by what follows the answer that ended the run.
    if (coordinator_->Running()) return false;
    EXPECT_EQ(coordinator_->exit_code(), kKilled) << Text();
    return true;
  }

  void KillCoordinator() {
    coordinator_->Signal(SIGKILL);
    EXPECT_TRUE(WaitUntil(kWaitMs, [this] { return !coordinator_->Running(); }));
  }

  void ExpectPlayedToTheEnd() {
    ASSERT_TRUE(WaitUntil(kWaitMs, [this] { return !player_->Running(); })) << Text();
    EXPECT_EQ(player_->exit_code(), 0) << Text();
  }

  // What `buttress` prints about the run.
  std::string StatusText() const { return Tell({"status", yaml()}); }

  std::string AuditText() const { return Tell({"ledger", "audit", out()}); }

  void ExpectCleanEnd() {
    ASSERT_NO_FATAL_FAILURE(ExpectPlayedToTheEnd());
    ASSERT_NO_FATAL_FAILURE(StopCoordinator());
    // What follows the answer that ended the run, and the stop, may reach the point as well.
    if (coordinator_->exit_code() == kKilled) {
      StartCoordinator("");
      ASSERT_NO_FATAL_FAILURE(StopCoordinator());
    }
    EXPECT_EQ(coordinator_->exit_code(), 0) << Text();
    const auto reader = LedgerReader::Open(JoinPath(out(), "ledger.db"));
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    auto audit = AuditLedger(**reader);
    ASSERT_TRUE(audit.ok()) << audit.status().ToString();
    EXPECT_EQ(audit->violations(), std::vector<std::string>());
    EXPECT_EQ(audit->groups["settled"], kSteps * kPrompts);
    EXPECT_EQ(audit->recounted, audit->reported);
  }

  std::string Text() const {
    return TextOf(JoinPath(dir_.path(), "coordinator.log")) +
           TextOf(JoinPath(dir_.path(), "played_run.log"));
  }

 private:
  // Sends SIGTERM once the coordinator serves.
  void StopCoordinator() {
    ASSERT_TRUE(WaitUntil(kWaitMs, [this] {
      return std::filesystem::exists(address()) || !coordinator_->Running();
    })) << Text();
    coordinator_->Signal(SIGTERM);
    ASSERT_TRUE(WaitUntil(kWaitMs, [this] { return !coordinator_->Running(); })) << Text();
  }

  std::string Tell(std::vector<std::string> arguments) const {
    const std::string log = JoinPath(dir_.path(), "told.log");
    arguments.insert(arguments.begin(), SiblingProgram("buttress"));
    std::filesystem::remove(log);
    RunToEnd(arguments, log, kWaitMs);
    return TextOf(log);
  }

  std::optional<Process> Start(const std::string& program, const std::vector<std::string>& more) {
    std::vector<std::string> argv = {SiblingProgram(program)};
    argv.insert(argv.end(), more.begin(), more.end());
    auto process = Process::Start(argv, JoinPath(dir_.path(), program + ".log"));
    EXPECT_TRUE(process.ok()) << process.status().ToString();
    return process.ok() ? std::optional(*process) : std::nullopt;
  }

  std::string out() const { return JoinPath(dir_.path(), "run"); }

  std::string address() const { return JoinPath(out(), "coordinator.address"); }

  std::string yaml() const { return JoinPath(dir_.path(), "run.yaml"); }

  TempDir dir_;
  std::optional<Process> player_;
  std::optional<Process> coordinator_;
};

// A start and the next one die at the point, if they reach it; the third one ends the run.
void KillAt(const std::string& point) {
  SCOPED_TRACE(point);
  PlayedRun run;
  if (point == kAtRestart) {
    run.StartCoordinator("payload_write:crash:" + std::to_string(kPrompts + 1));
    ASSERT_TRUE(run.WaitForDeath()) << "the run ended\n" << run.Text();
  }
  int deaths = 0;
  for (int start = 0; start < 2; ++start) {
    run.StartCoordinator(point + ":crash:1");
    if (!run.WaitForDeath()) break;
    ++deaths;
  }
  EXPECT_GT(deaths, 0) << "the point was never reached\n" << run.Text();
  EXPECT_THAT(run.Text(), testing::HasSubstr("failpoint reached; killing the process"));
  if (deaths == 2) run.StartCoordinator("");
  run.ExpectCleanEnd();
}

TEST(CoordinatorFailpoints, ACoordinatorKilledAtAnyOfThemLosesAndRepeatsNothing) {
  ASSERT_TRUE(Input::Get().made());
  for (const char* point : kPoints) {
    KillAt(point);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CoordinatorFailpoints, ARunThatItsLearnerHasEndedStaysSoWhenTheCoordinatorIsKilled) {
  ASSERT_TRUE(Input::Get().made());
  PlayedRun run({"2"});
  run.StartCoordinator("");
  run.ExpectPlayedToTheEnd();
  const std::string audit = run.AuditText();
  run.KillCoordinator();
  run.StartCoordinator("");
  std::string status;
  EXPECT_TRUE(WaitUntil(kWaitMs, [&] {
    status = run.StatusText();
    return status.find("starts: coordinator 2") != std::string::npos;
  })) << status;
  EXPECT_THAT(status, testing::HasSubstr("played: stopped, step 2 of 3, checkpoint of step 2"));
  EXPECT_THAT(status, testing::HasSubstr("the learner ended it: nothing left to learn\n"));
  EXPECT_EQ(run.AuditText(), audit);
}

TEST(CoordinatorFailpoints, EveryOneOfTheSourcesHasItsCase) {
  namespace fs = std::filesystem;
  std::set<std::string> found;
  // A long call may stand on two lines.
  const std::regex call("Failpoint\\(\\s*\"(\\w+)\"");
  for (const char* part : {"lib", "coordinator"}) {
    const fs::path folder = fs::path(BUTTRESS_SOURCE_DIR) / part;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      const std::string text = TextOf(entry.path());
      for (std::sregex_iterator next(text.begin(), text.end(), call), end; next != end; ++next)
        found.insert((*next)[1]);
    }
  }
  EXPECT_EQ(found, std::set<std::string>(std::begin(kPoints), std::end(kPoints)));
}

}  // namespace
}  // namespace buttress::coordinator_failpoints_test
