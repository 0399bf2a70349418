// Programs started by hand: `--check` of each, and what they end with when an input is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/support/runs/quickstart_run.h"

namespace buttress::program_checks_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kProgramMs = 120000;
constexpr const char* kPrograms[] = {"coordinator", "rollout_worker", "learner"};

class ProgramChecksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(TinyTask::Get().error(), "");
    fs::copy(TinyTask::Get().folder() + "/model", model());
    ASSERT_TRUE(WriteFileAtomic(yaml_, TinyRunYaml(dir_.path() + "/run", 3)).ok());
  }

  void TearDown() override { KillDescendants(); }

  std::string model() const { return dir_.path() + "/model"; }

  // Exit code of a program of the run, whose output is then in text().
  int Run(const std::string& program, const std::vector<std::string>& more) {
    std::vector<std::string> argv = {SiblingProgram(program), "--config", yaml_, "--set",
                                     "run.model.path=" + model()};
    argv.insert(argv.end(), more.begin(), more.end());
    fs::remove(log_);
    return RunToEnd(argv, log_, kProgramMs);
  }

  std::string text() const { return TextOf(log_); }

  std::string LastLine() const {
    const std::string all = text();
    const std::size_t end = all.find_last_not_of('\n');
    return all.substr(all.rfind('\n', end) + 1);
  }

  TempDir dir_;
  std::string yaml_ = dir_.path() + "/run.yaml";
  std::string log_ = dir_.path() + "/log";
};

TEST_F(ProgramChecksTest, EveryProgramChecksItsPart) {
  for (const char* program : kPrograms) {
    EXPECT_EQ(Run(program, {"--check"}), 0) << text();
    EXPECT_THAT(text(), AllOf(HasSubstr("ok       tokenizer: "), HasSubstr(": ok (run ")));
    EXPECT_FALSE(fs::exists(dir_.path() + "/run")) << program << " has started something";
  }
  fs::remove(model() + "/tokenizer.json");
  for (const char* program : kPrograms) {
    EXPECT_EQ(Run(program, {"--check"}), 2) << text();
    EXPECT_THAT(text(), HasSubstr("error    tokenizer: "));
  }
}

TEST_F(ProgramChecksTest, RanksThatCannotShareTheirRowsEndWithTwo) {
  const std::string key = "local.learner.context_parallel";
  EXPECT_EQ(Run("learner", {"--check", "--set", key + "=2"}), 2) << text();
  EXPECT_THAT(text(), HasSubstr("error    " + key + ": 1 ranks cannot form groups of 2; start"));
  EXPECT_EQ(Run("learner", {"--set", key + "=2"}), 2) << text();
  EXPECT_THAT(LastLine(), HasSubstr(key + ": 1 ranks cannot form groups of 2; start"));
  EXPECT_EQ(Run("learner", {"--set", key + "=3"}), 2) << text();
  EXPECT_THAT(LastLine(), HasSubstr(key + ": 3 ranks cannot divide the 2 attention heads and 2 "
                                          "key-value heads of the model equally; set one of 1, 2"));
}

TEST_F(ProgramChecksTest, AMissingTokenizerEndsWithTwo) {
  fs::remove(model() + "/tokenizer.json");
  for (const char* program : {"coordinator", "rollout_worker"}) {
    EXPECT_EQ(Run(program, {}), 2) << text();
    EXPECT_THAT(LastLine(), AllOf(HasSubstr("run.model.path"), HasSubstr("tokenizer.json")));
  }
}

TEST_F(ProgramChecksTest, MissingWeightsEndWithTwo) {
  fs::remove(model() + "/model.safetensors");
  for (const char* program : {"rollout_worker", "learner"}) {
    EXPECT_EQ(Run(program, {}), 2) << text();
    EXPECT_THAT(LastLine(), HasSubstr("has neither model.safetensors nor"));
  }
}

TEST_F(ProgramChecksTest, AMissingModelOrDatasetEndsWithTwo) {
  for (const char* program : kPrograms) {
    EXPECT_EQ(Run(program, {"--set", "run.model.path=" + dir_.path() + "/none"}), 2) << text();
    EXPECT_THAT(LastLine(), HasSubstr(dir_.path() + "/none"));
  }
  EXPECT_EQ(Run("coordinator", {"--set", "run.data.prompts=" + dir_.path() + "/none.jsonl"}), 2);
  EXPECT_THAT(LastLine(), HasSubstr("none.jsonl"));
}

TEST_F(ProgramChecksTest, ARunFolderIsPrivateUnderAnyUmask) {
  const std::string out = dir_.path() + "/run";
  auto process =
      Process::Start({"sh", "-c", "umask 000 && exec \"$0\" --config \"$1\" --set \"$2\"",
                      SiblingProgram("coordinator"), yaml_, "run.model.path=" + model()},
                     log_);
  ASSERT_TRUE(process.ok());
  EXPECT_TRUE(WaitUntil(kProgramMs, [&] { return fs::exists(out + "/coordinator.address"); }));
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    const fs::file_status status = entry.status();
    if (status.type() == fs::file_type::not_found)
      continue;  // it had its name while it was written
    EXPECT_EQ(status.permissions() & (fs::perms::others_all | fs::perms::group_write),
              fs::perms::none)
        << entry.path();
  }
  EXPECT_EQ(fs::status(out).permissions(), fs::perms(0750));
  process->Signal(SIGTERM);
  EXPECT_TRUE(WaitUntil(kProgramMs, [&] { return !process->Running(); }));
}

TEST_F(ProgramChecksTest, ARunWithoutMetricsOpensNoPortForThem) {
  std::vector<std::string> argv = {SiblingProgram("buttress"), "launch", yaml_, "--no-eval"};
  for (const char* setting :
       {"local.coordinator.metrics=off", "local.worker.metrics=off", "local.learner.metrics=off",
        "local.launch.learner_ranks=2", "run.model.path="})
    argv.insert(argv.end(), {"--set", setting});
  argv.back() += model();
  EXPECT_EQ(RunToEnd(argv, log_, 2 * kProgramMs), 0) << text();
  const std::string out = dir_.path() + "/run";
  EXPECT_FALSE(fs::exists(out + "/coordinator.metrics"));
  EXPECT_FALSE(fs::exists(out + "/workers/w0.metrics"));
  for (const char* rank : {"0", "1"})
    EXPECT_FALSE(fs::exists(out + "/learner/" + rank + ".metrics"));
}

TEST_F(ProgramChecksTest, PromptsThatAreAFifoEndWithTwo) {
  const std::string fifo = dir_.path() + "/fifo.jsonl";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Run("coordinator", {"--set", "run.data.prompts=" + fifo}), 2) << text();
  EXPECT_THAT(LastLine(), HasSubstr("FIFO"));
}

TEST_F(ProgramChecksTest, LinksInTheRunFolderEndWithTwo) {
  const std::string out = dir_.path() + "/run";
  fs::create_directories(dir_.path() + "/elsewhere");
  fs::create_directories(out);
  fs::create_symlink(dir_.path() + "/elsewhere", out + "/payloads");
  EXPECT_EQ(Run("coordinator", {}), 2) << text();
  EXPECT_THAT(LastLine(), HasSubstr("payloads is a link"));
  fs::remove_all(out);
  fs::create_directories(out);
  fs::create_symlink(dir_.path() + "/elsewhere/lock", out + "/ledger.db.lock");
  EXPECT_EQ(Run("coordinator", {}), 2) << text();
  EXPECT_THAT(LastLine(), HasSubstr("ledger.db.lock is a link"));
}

// mpirun starts the ranks of both, with --check.
TEST_F(ProgramChecksTest, LaunchAndDoctorCheckTheRanksToo) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"launch", yaml_, "--check"}, {"doctor", yaml_}}) {
    std::vector<std::string> argv = {SiblingProgram("buttress")};
    argv.insert(argv.end(), command.begin(), command.end());
    argv.insert(argv.end(), {"--set", "local.launch.learner_ranks=2"});
    fs::remove(log_);
    EXPECT_EQ(RunToEnd(argv, log_, kProgramMs), 0) << text();
    EXPECT_THAT(text(), AllOf(HasSubstr("ok       local.launch.mpirun: 2 learner ranks start"),
                              HasSubstr("ok       memory of a learner rank: "),
                              HasSubstr(" MiB at most: weights "), HasSubstr("(zero: 0)"),
                              HasSubstr("ok       memory: 2 learner ranks"),
                              HasSubstr("ok       GPUs: skipped")));
    EXPECT_FALSE(fs::exists(dir_.path() + "/run"));
  }
}

TEST_F(ProgramChecksTest, AHostsFileThatCannotBeUsedIsAFindingOfBoth) {
  const std::string hosts = dir_.path() + "/hosts";
  ASSERT_TRUE(WriteFileAtomic(hosts, "node1 coordinator ranks=many\n").ok());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"launch", yaml_, "--check"}, {"doctor", yaml_}}) {
    std::vector<std::string> argv = {SiblingProgram("buttress")};
    argv.insert(argv.end(), command.begin(), command.end());
    argv.insert(argv.end(), {"--hosts", hosts});
    fs::remove(log_);
    EXPECT_EQ(RunToEnd(argv, log_, kProgramMs), 2) << text();
    EXPECT_THAT(text(), HasSubstr("--hosts: " + hosts + ":1: "));
  }
}

}  // namespace
}  // namespace buttress::program_checks_test
