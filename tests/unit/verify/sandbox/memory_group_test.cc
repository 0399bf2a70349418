// The files of groups are imitated in a folder. What the kernel does with real ones is tested where
// this process may make groups: `tests/cgroup/run.sh` runs these tests on a kernel of their own.
#include "lib/verify/sandbox/memory_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/verify/sandbox/sandbox.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class MemoryGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "user" / "job");
  }

  void TearDown() override { fs::remove_all(root_); }

  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  // This process is in the group `own` of a tree that is mounted at the test's folder.
  GroupFiles Files(const std::string& own) const {
    Write(root_ / "own", "12:memory:/elsewhere\n0::" + own + "\n");
    Write(root_ / "mounts",
          "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 24 0:27 / " +
              root_.string() + " rw,relatime shared:9 - cgroup2 cgroup2 rw\n");
    return {root_ / "own", root_ / "mounts"};
  }

  const fs::path root_ = fs::temp_directory_path() / ("memory_group_" + std::to_string(::getpid()));
};

TEST_F(MemoryGroupTest, ANamedFolderIsOfEitherVersionOrRefused) {
  EXPECT_THAT(FindGroupParent(root_).status().message(), HasSubstr("BUTTRESS_CGROUP names"));
  Write(root_ / "memory.limit_in_bytes", "");
  EXPECT_TRUE(FindGroupParent(root_)->is_v1);
  Write(root_ / "cgroup.controllers", "memory");
  EXPECT_FALSE(FindGroupParent(root_)->is_v1);
  EXPECT_EQ(FindGroupParent(root_)->folder, root_);
}

TEST_F(MemoryGroupTest, OnlyAGroupThatIsMarkedAsDelegatedIsTaken) {
  const GroupFiles files = Files("/user/job");
  EXPECT_THAT(FindGroupParent("", files).status().message(),
              HasSubstr("user/job is not delegated to this program"));
  if (::setxattr((root_ / "user").c_str(), "user.delegate", "1", 1, 0) != 0)
    GTEST_SKIP() << "the file system has no attributes of users";
  EXPECT_EQ(FindGroupParent("", files)->folder, root_ / "user");
  ASSERT_EQ(::setxattr((root_ / "user" / "job").c_str(), "user.delegate", "1", 1, 0), 0);
  EXPECT_EQ(FindGroupParent("", files)->folder, root_ / "user" / "job");
}

TEST_F(MemoryGroupTest, AProcessWithoutGroupOfV2HasNone) {
  GroupFiles files = Files("/user");
  Write(root_ / "own", "4:memory:/x\n");
  EXPECT_THAT(FindGroupParent("", files).status().message(), HasSubstr("in no group"));
}

TEST_F(MemoryGroupTest, TheControllerMustBeThere) {
  Write(root_ / "cgroup.controllers", "cpu pids");
  EXPECT_THAT(PrepareGroupParent({root_}).message(), HasSubstr("has no memory controller"));
}

TEST_F(MemoryGroupTest, LeftoversOfEndedProgramsAreRemoved) {
  Write(root_ / "cgroup.controllers", "cpu memory pids");
  const fs::path left = root_ / "buttress-sandbox-999999999-3";
  const fs::path used = root_ / "buttress-sandbox-1-3";
  fs::create_directories(left);
  fs::create_directories(used);
  ASSERT_TRUE(PrepareGroupParent({root_}).ok());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(used));
  EXPECT_TRUE(fs::exists(root_ / "user"));
}

TEST_F(MemoryGroupTest, BoundsAreWrittenAndKillsAreRead) {
  auto group = MemoryGroup::Make({root_}, 1 << 20, 16);
  ASSERT_TRUE(group.ok());
  const fs::path folder = fs::path((*group)->Enter().back()).parent_path();
  EXPECT_EQ(Read(folder / "memory.max"), "1048576");
  EXPECT_FALSE((*group)->OutOfMemory());
  Write(folder / "memory.events", "low 0\noom 3\noom_kill 0\noom_group_kill 0\n");
  EXPECT_FALSE((*group)->OutOfMemory());
  Write(folder / "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_TRUE((*group)->OutOfMemory());
}

TEST_F(MemoryGroupTest, TheFirstVersionHasOtherFiles) {
  auto group = MemoryGroup::Make({root_, true}, 1 << 20, 16);
  ASSERT_TRUE(group.ok());
  const fs::path folder = fs::path((*group)->Enter().back()).parent_path();
  EXPECT_EQ(Read(folder / "memory.limit_in_bytes"), "1048576");
  Write(folder / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_TRUE((*group)->OutOfMemory());
}

// Real groups.
class KernelGroupTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<Sandbox> opened = Sandbox::Open({});
    if (opened.ok()) sandbox_ = new Sandbox(*std::move(opened));
  }

  static void TearDownTestSuite() { delete sandbox_; }

  void SetUp() override {
    if (!GroupParentOfProcess().ok()) GTEST_SKIP() << MemoryBoundText();
    ASSERT_NE(sandbox_, nullptr);
  }

  // No group outlives its sandbox.
  void TearDown() override {
    if (!GroupParentOfProcess().ok()) return;
    for (const auto& entry : fs::directory_iterator(GroupParentOfProcess()->folder))
      EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("sandbox-"))) << entry;
  }

  static SandboxResult Python(const std::string& program) {
    const SandboxLimits limits{
        .cpu_seconds = 300, .wall = milliseconds(300000), .disk_bytes = 256 << 20};
    const auto result = sandbox_->Run({{"/usr/bin/python3", "-I", "-c", program}, {}, {}, limits});
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? *result : SandboxResult();
  }

  static Sandbox* sandbox_;
};

Sandbox* KernelGroupTest::sandbox_ = nullptr;

TEST_F(KernelGroupTest, TwelveProcessesTogetherStayWithinTheMemoryOfOne) {
  const SandboxResult result = Python(
      "import os, time\n"
      "for _ in range(12):\n"
      "  if os.fork() == 0:\n"
      "    held = b'x' * (440 << 20)\n"
      "    time.sleep(1000)\n"
      "time.sleep(1000)\n");
  EXPECT_EQ(result.end, SandboxEnd::kMemory);
}

TEST_F(KernelGroupTest, OrphansCount) {
  const SandboxResult result = Python(
      "import os, time\n"
      "for _ in range(10):\n"
      "  held = b'x' * (100 << 20)\n"
      "  if os.fork() != 0:\n"
      "    time.sleep(1000)\n"
      "  os.setsid()\n"
      "  held = None\n"
      "time.sleep(1000)\n");
  EXPECT_EQ(result.end, SandboxEnd::kMemory);
}

TEST_F(KernelGroupTest, FilesAndSharedMappingsCountMappedOrNot) {
  const SandboxResult result = Python(
      "import mmap, time\n"
      "for folder in ('/tmp/', '/work/'):\n"
      "  with open(folder + 'f', 'w+b') as file:\n"
      "    file.truncate(200 << 20)\n"
      "    with mmap.mmap(file.fileno(), 200 << 20) as shared:\n"
      "      for at in range(0, 200 << 20, 4096): shared[at] = 1\n"
      "print('files')\n"
      "held = b'x' * (200 << 20)\n"
      "time.sleep(1000)\n");
  EXPECT_EQ(result.end, SandboxEnd::kMemory);
}

TEST_F(KernelGroupTest, PagesThatProcessesShareCountOnce) {
  const SandboxResult result = Python(
      "import os\n"
      "held = b'x' * (300 << 20)\n"
      "for _ in range(8):\n"
      "  if os.fork() == 0: os._exit(held[-1] != 120)\n"
      "for _ in range(8): assert os.wait()[1] == 0\n"
      "print('once')\n");
  EXPECT_EQ(result.output, "once\n");
  EXPECT_EQ(result.end, SandboxEnd::kExited);
}

TEST_F(KernelGroupTest, AProgramThatEndsByItselfAfterAKillHasExceededItsMemory) {
  const SandboxResult result = Python(
      "import os, time\n"
      "held = b'x' * (300 << 20)\n"
      "for _ in range(2):\n"
      "  if os.fork() == 0:\n"
      "    more = b'y' * (150 << 20)\n"
      "    time.sleep(1000)\n"
      "os.wait()\n");
  EXPECT_EQ(result.end, SandboxEnd::kMemory);
}

}  // namespace
}  // namespace buttress
