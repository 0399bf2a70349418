#include <gtest/gtest.h>

#include "lib/base/os/memory.h"
#include "tests/support/runs/system_root.h"

namespace buttress {
namespace {

using ControlGroupTest = SystemRootTest;

TEST_F(ControlGroupTest, TheMachineBoundsAProcessWithoutALimit) {
  EXPECT_EQ(MemoryLimit(root), 0);
  Write("proc/meminfo", "MemTotal:  2000 kB\nMemFree: 5 kB\nMemAvailable:  700 kB\n");
  EXPECT_EQ(MemoryLimit(root), 2000 * 1024);
  EXPECT_EQ(AvailableMemory(root), 700 * 1024);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(MemoryLimit(root), 2000 * 1024);
}

TEST_F(ControlGroupTest, TheLeastLimitOfAGroupAndThoseAboveItHolds) {
  Write("proc/meminfo", "MemTotal:  2000 kB\n");
  Write("proc/self/cgroup", "0::/pod/container\n");
  Write("sys/fs/cgroup/pod/container/memory.max", "max\n");
  Write("sys/fs/cgroup/pod/memory.max", "4096\n");
  EXPECT_EQ(MemoryLimit(root), 4096);
  Write("sys/fs/cgroup/memory.max", "1024\n");  // a container that sees its own group at the top
  EXPECT_EQ(MemoryLimit(root), 1024);
}

TEST_F(ControlGroupTest, ReadsVersionOne) {
  Write("proc/meminfo", "MemTotal:  2000 kB\n");
  Write("proc/self/cgroup", "4:memory:/job\n1:cpu:/\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "512\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MemoryLimit(root), 512);
}

}  // namespace
}  // namespace buttress
