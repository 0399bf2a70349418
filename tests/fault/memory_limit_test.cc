// Real programs under a limit of the kernel on their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/runs/quickstart_run.h"

namespace buttress::memory_limit_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kProgramMs = 120000;

// Each square projection takes 4 GiB.
std::vector<std::string> NewLargeModel(const std::string& folder) {
  return {SiblingProgram("buttress"),
          "new-model",
          "--out",
          folder,
          "--characters",
          "0123456789+-:>",
          "--layers",
          "1",
          "--hidden",
          "32768",
          "--heads",
          "8",
          "--intermediate",
          "8"};
}

TEST(MemoryLimitTest, ALearnerThatRunsOutOfMemorySaysWhatToLowerAndIsNotRestarted) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log"), data = JoinPath(dir.path(), "data.jsonl");
  const std::string model = JoinPath(dir.path(), "model");
  ASSERT_EQ(RunToEnd(NewLargeModel(model), log, kProgramMs), 0) << TextOf(log);
  ASSERT_TRUE(WriteFileAtomic(data, "{\"prompt\": \"1:\", \"response\": \"1\"}\n").ok());
  const int code = RunToEnd(
      {"prlimit", "--as=4294967296", SiblingProgram("learner"), "sft", "--model", model, "--data",
       data, "--out", model + "-out", "--steps", "1", "--batch", "1", "--micro-batch-tokens", "64"},
      log, kProgramMs);
  EXPECT_EQ(code, 6);
  EXPECT_THAT(TextOf(log), AllOf(HasSubstr("you tried to allocate"), HasSubstr("the peak of this"),
                                 HasSubstr("lower --micro-batch-tokens (64)")));
}

// A control group with a bound on its memory, or an empty path and why there is none.
class LimitedGroup {
 public:
  explicit LimitedGroup(std::int64_t bytes) {
    std::ifstream self("/proc/self/cgroup");
    const std::string groups{std::istreambuf_iterator<char>(self), {}};
    const std::size_t v1 = groups.find(":memory:");
    const std::size_t begin = v1 == std::string::npos ? groups.find("0::") + 3 : v1 + 8;
    const std::string own = groups.substr(begin, groups.find('\n', begin) - begin);
    const std::string mounted =
        v1 == std::string::npos ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    path_ = mounted + own + "/buttress-test-" + std::to_string(::getpid());
    bound_ = path_ + (v1 == std::string::npos ? "/memory.max" : "/memory.limit_in_bytes");
    std::error_code error;
    std::filesystem::create_directory(path_, error);
    if (error || !Bound(bytes)) {
      std::filesystem::remove(path_, error);
      path_.clear();
    }
  }

  bool Bound(std::int64_t bytes) const {
    std::ofstream file(bound_);
    return static_cast<bool>(file << bytes << std::flush);
  }

  ~LimitedGroup() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove(path_, error);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string bound_;
};

TEST(MemoryLimitTest, ALearnerThatTheKernelKilledForItsMemoryIsNotRestarted) {
  const LimitedGroup group(std::int64_t{8} << 30);
  if (group.path().empty()) GTEST_SKIP() << "no control group can be made: not root?";
  ASSERT_EQ(TinyTask::Get().error(), "");
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log"), model = JoinPath(dir.path(), "model"),
                    fresh = JoinPath(dir.path(), "new"), out = JoinPath(dir.path(), "out");
  // 200 MiB of weights; a learner has four times as much.
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "new-model", "--out", fresh, "--characters",
                      "0123456789+-:>", "--layers", "4", "--hidden", "1024", "--heads", "4",
                      "--intermediate", "2816"},
                     log, kProgramMs),
            0)
      << TextOf(log);
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "sft", "--model", fresh, "--data",
                      TinyTask::Get().folder() + "/sft.jsonl", "--out", model, "--steps", "1",
                      "--batch", "1"},
                     log, kProgramMs),
            0)
      << TextOf(log);
  const std::string yaml = JoinPath(dir.path(), "run.yaml");
  ASSERT_TRUE(WriteFileAtomic(yaml, TinyRunYaml(out, 3)).ok());
  const std::string launch = "echo $$ > " + group.path() + "/cgroup.procs && exec " +
                             SiblingProgram("buttress") + " launch " + yaml +
                             " --set run.model.path=" + model +
                             " --set local.launch.learner_ranks=1 --set local.launch.workers=1";
  auto process = Process::Start({"sh", "-c", launch}, log);
  ASSERT_TRUE(process.ok());
  // The checks before the start would not let a learner begin that has no room.
  ASSERT_TRUE(
      WaitUntil(kProgramMs, [&] { return std::filesystem::exists(JoinPath(out, "launch.lock")); }));
  EXPECT_TRUE(group.Bound(std::int64_t{600} << 20));
  ASSERT_TRUE(WaitUntil(kProgramMs, [&] { return !process->Running(); }));
  EXPECT_EQ(process->exit_code(), 6) << TextOf(log);
  EXPECT_THAT(TextOf(log), HasSubstr("by the kernel because memory ran out"));
}

}  // namespace
}  // namespace buttress::memory_limit_test
