#include "coordinator/lease_times.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

void Add(LeaseTimes& times, std::size_t count, std::int64_t ms) {
  for (std::size_t i = 0; i < count; ++i) times.Add(ms);
}

TEST(LeaseTimesTest, NothingIsLateBeforeThereAreEnoughTimes) {
  LeaseTimes times;
  Add(times, LeaseTimes::kEnough - 1, 500);
  EXPECT_EQ(times.late_ms(), std::nullopt);
  times.Add(500);
  EXPECT_EQ(times.late_ms(), LeaseTimes::kLateMedians * 500);
}

TEST(LeaseTimesTest, ShortTimesMakeNothingLateAtOnce) {
  LeaseTimes times;
  Add(times, LeaseTimes::kEnough, 1);
  EXPECT_EQ(times.late_ms(), LeaseTimes::kSoonestMs);
}

TEST(LeaseTimesTest, LessThanHalfOfTheTimesMoveNothing) {
  LeaseTimes times;
  Add(times, LeaseTimes::kKept / 2 + 1, 500);
  Add(times, LeaseTimes::kKept / 2 - 1, 1000000);
  EXPECT_EQ(times.late_ms(), LeaseTimes::kLateMedians * 500);
}

TEST(LeaseTimesTest, OldTimesAreForgotten) {
  LeaseTimes times;
  Add(times, LeaseTimes::kKept, 500);
  EXPECT_EQ(times.late_ms(), LeaseTimes::kLateMedians * 500);
  Add(times, LeaseTimes::kKept, 700);
  EXPECT_EQ(times.late_ms(), LeaseTimes::kLateMedians * 700);
}

}  // namespace
}  // namespace buttress
