#include "lib/base/thread/parallel.h"

#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace buttress {
namespace {

TEST(ParallelTest, EveryIndexIsCalledOnceAndTheLowestErrorReturned) {
  std::vector<int> calls(100);
  const Status status = RunInParallel(calls.size(), [&](std::size_t i) {
    ++calls[i];
    return i % 40 == 39 ? DataLoss(std::to_string(i)) : OkStatus();
  });
  EXPECT_EQ(status.message(), "39");
  EXPECT_EQ(calls, std::vector<int>(100, 1));
  EXPECT_TRUE(RunInParallel(0, [](std::size_t) { return DataLoss("called"); }).ok());
}

TEST(ParallelTest, CallsRunAtTheSameTime) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  std::latch both(2);
  EXPECT_TRUE(RunInParallel(2, [&](std::size_t) {
                both.arrive_and_wait();
                return OkStatus();
              }).ok());
}

TEST(ParallelTest, AnExceptionReachesTheCaller) {
  const auto run = [](std::size_t) -> Status { throw std::runtime_error("no memory"); };
  EXPECT_THROW(RunInParallel(4, run).IgnoreError(), std::runtime_error);
}

}  // namespace
}  // namespace buttress
