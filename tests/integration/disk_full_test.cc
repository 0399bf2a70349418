// A run of the real programs whose ledger lies on a small file system of its own, which is filled
// and freed again while the run trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/brake.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::disk_full_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 60;
constexpr int kFull = 5;  // the step after which the disk is full
constexpr std::int64_t kRunMs = 120000;
// Longer than the patience of the learner, three quarters of its collective_timeout_ms.
constexpr std::int64_t kPauseMs = 12000;

// Mounts an empty file system on `folder`, which only this process and its children see. Returns
// why that cannot be done, empty if it is.
std::string MountSmallDisk(const std::string& folder) {
  const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0 &&
                       ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=48m") == 0;
  return mounted ? "" : "a file system cannot be mounted here: " + std::string(strerror(errno));
}

class DiskFullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(disk_);
    if (const std::string why = MountSmallDisk(disk_); !why.empty()) GTEST_SKIP() << why;
    mounted_ = true;
    SetChildSubreaper();
  }

  void TearDown() override {
    KillDescendants();
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }

  // Starts a program; `address` is that of the coordinator, if it runs already.
  Process StartProgram(const std::string& program, const std::string& out,
                       const std::string& address) {
    const std::string yaml = dir_.path() + "/" + program + ".yaml";
    std::string text = TinyRunYaml(out, kSteps);
    const std::string timeout = "collective_timeout_ms: 20000";
    text.replace(text.find(timeout), timeout.size(), "collective_timeout_ms: 12000");
    const std::string verifier = "verifier: countdown";
    text.replace(text.find(verifier), verifier.size(),
                 "verifier: \"" + brake_.Verifier() +
                     "\", timeout_ms: " + std::to_string(Brake::kPatienceMs));
    if (!address.empty()) text += "  coordinator: {advertise: \"" + address + "\"}\n";
    EXPECT_TRUE(WriteFileAtomic(yaml, text).ok());
    return *Process::Start({SiblingProgram(program), "--config", yaml}, Log(program));
  }

  std::int64_t Step() const {
    const auto steps = ReadSteps(elsewhere_ + "/steps.jsonl");
    return steps.ok() && !steps->empty() ? static_cast<std::int64_t>(steps->back().step) : 0;
  }

  // Takes all room that is left; returns the file that does.
  std::string FillDisk() const {
    std::string file = disk_ + "/of-another-program";
    std::ofstream filler(file, std::ios::binary);
    const std::string block(1 << 16, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    return file;
  }

  std::string Status() const {
    const std::string log = dir_.path() + "/status.log";
    RunToEnd({SiblingProgram("buttress"), "status", disk_}, log, 60000);
    return TextOf(log);
  }

  std::string Log(const std::string& program) const { return dir_.path() + "/" + program + ".log"; }

  std::string Text() const {
    return TextOf(Log("coordinator")) + TextOf(Log("rollout_worker")) + TextOf(Log("learner"));
  }

  static int Wait(Process& process, std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [&] { return !process.Running(); }) ? process.exit_code() : -1;
  }

  TempDir dir_;
  const Brake brake_{kFull};
  const std::string disk_ = dir_.path() + "/disk";
  const std::string elsewhere_ = dir_.path() + "/elsewhere";
  bool mounted_ = false;
};

TEST_F(DiskFullTest, TheRunWaitsForRoomAndLosesNothing) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  Process coordinator = StartProgram("coordinator", disk_, "");
  const std::string address_file = disk_ + "/coordinator.address";
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return std::filesystem::exists(address_file); })) << Text();
  std::string address = TextOf(address_file);
  address.pop_back();
  Process worker = StartProgram("rollout_worker", elsewhere_, address);
  Process learner = StartProgram("learner", elsewhere_, address);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return Step() >= kFull || !learner.Running(); })) << Text();

  const std::string file = FillDisk();
  brake_.Release();
  std::string status;
  ASSERT_TRUE(WaitUntil(kRunMs,
                        [&] {
                          status = Status();
                          return status.find(" has 0.0 MiB free") != std::string::npos;
                        }))
      << status << Text();
  EXPECT_THAT(status,
              AllOf(HasSubstr("tiny: paused"), HasSubstr("disk full: " + disk_ + " has 0.0"),
                    HasSubstr("up to 32 MiB")));
  WaitUntil(kPauseMs,
            [&] { return !coordinator.Running() || !worker.Running() || !learner.Running(); });
  ASSERT_TRUE(coordinator.Running() && worker.Running() && learner.Running()) << Text();
  EXPECT_THAT(Status(), HasSubstr("tiny: paused"));
  EXPECT_LT(Step(), kSteps);
  std::filesystem::remove(file);

  EXPECT_EQ(Wait(learner, kRunMs), 0) << Text();
  EXPECT_EQ(Wait(worker, kRunMs), 0) << Text();
  coordinator.Signal(SIGTERM);
  EXPECT_EQ(Wait(coordinator, kRunMs), 0) << Text();
  const std::string log = dir_.path() + "/audit.log";
  EXPECT_EQ(
      RunToEnd({SiblingProgram("buttress"), "ledger", "audit", disk_, "--learner", elsewhere_}, log,
               60000),
      0)
      << TextOf(log);
  const auto reader = LedgerReader::Open(disk_ + "/ledger.db");
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto audit = AuditLedger(**reader);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_EQ(audit->violations(), std::vector<std::string>());
  EXPECT_EQ(audit->groups["settled"], kSteps * 8);
  const auto steps = ReadSteps(elsewhere_ + "/steps.jsonl");
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), static_cast<std::size_t>(kSteps)) << "a step was done twice or left out";
}

}  // namespace
}  // namespace buttress::disk_full_test
