// While it lives, the calling thread, and what it starts, share one CPU.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

namespace buttress {

class OneCpu {
 public:
  OneCpu() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(all_), &all_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all_)) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }

  ~OneCpu() { EXPECT_EQ(::sched_setaffinity(0, sizeof(all_), &all_), 0); }

  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t all_;
};

}  // namespace buttress
