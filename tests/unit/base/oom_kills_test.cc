#include <gtest/gtest.h>

#include "lib/base/os/memory.h"
#include "tests/support/runs/system_root.h"

namespace buttress {
namespace {

using OomKillsTest = SystemRootTest;

TEST_F(OomKillsTest, CountsInTheGroupOfThisProcess) {
  Write("proc/self/cgroup", "0::/pod/container\n");
  Write("sys/fs/cgroup/pod/container/memory.events", "low 0\nmax 9\noom 4\noom_kill 3\n");
  Write("sys/fs/cgroup/memory.events", "oom_kill 8\n");
  EXPECT_EQ(OomKills(root), 3);
}

TEST_F(OomKillsTest, ReadsTheMountedGroupWhereThePathIsThatOfTheHost) {
  Write("proc/self/cgroup", "0::/on/the/host\n");
  Write("sys/fs/cgroup/memory.events", "oom 4\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(OomKills(root), 2);
}

TEST_F(OomKillsTest, ReadsVersionOne) {
  Write("proc/self/cgroup", "4:memory:/job\n1:cpu:/\n0::/\n");
  Write("sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(OomKills(root), 5);
}

TEST_F(OomKillsTest, IsZeroWhereTheKernelDoesNotTell) {
  EXPECT_EQ(OomKills(root), 0);
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(OomKills(root), 0);
  Write("sys/fs/cgroup/memory.events", "low 0\n");
  EXPECT_EQ(OomKills(root), 0);
}

}  // namespace
}  // namespace buttress
