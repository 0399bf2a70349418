#include "coordinator/worker_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A group that failed at "a" is completed by "b".
std::vector<WorkerFaults::Sick> FailAndComplete(WorkerFaults& faults, std::uint64_t group_id) {
  faults.Failed(group_id, "a", 0);
  return faults.Accepted(group_id, "b");
}

TEST(WorkerFaultsTest, ThreeGroupsThatOthersCompletedMakeAWorkerSick) {
  WorkerFaults faults;
  EXPECT_THAT(FailAndComplete(faults, 1), IsEmpty());
  EXPECT_THAT(FailAndComplete(faults, 2), IsEmpty());
  const auto sick = FailAndComplete(faults, 7);
  ASSERT_EQ(sick.size(), 1u);
  EXPECT_EQ(sick[0].worker_id, "a");
  EXPECT_THAT(sick[0].group_ids, ElementsAre(1, 2, 7));
  EXPECT_THAT(FailAndComplete(faults, 8), IsEmpty()) << "its faults are forgotten";
}

TEST(WorkerFaultsTest, AWorkerThatCompletesTheGroupItselfIsNotAtFault) {
  WorkerFaults faults;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    faults.Failed(id, "a", 0);
    EXPECT_THAT(faults.Accepted(id, "a"), IsEmpty());
  }
}

TEST(WorkerFaultsTest, RareFaultsAreForgiven) {
  WorkerFaults faults;
  std::uint64_t next = 1;
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(FailAndComplete(faults, next++), IsEmpty());
    EXPECT_THAT(FailAndComplete(faults, next++), IsEmpty());
    for (std::int64_t n = 0; n < WorkerFaults::kForgivenAfter; ++n)
      EXPECT_THAT(faults.Accepted(next++, "a"), IsEmpty());
  }
}

TEST(WorkerFaultsTest, AFailureIsOldAfterItsTime) {
  WorkerFaults faults;
  faults.Failed(1, "a", 100);
  EXPECT_TRUE(faults.HasFailed(1, "a", 100));
  EXPECT_FALSE(faults.HasFailed(1, "a", 101));
  EXPECT_FALSE(faults.HasFailed(1, "b", 0));
  EXPECT_FALSE(faults.HasFailed(2, "a", 0));
}

TEST(WorkerFaultsTest, WhatIsGoneIsForgotten) {
  WorkerFaults faults;
  faults.Failed(1, "a", 0);
  EXPECT_THAT(FailAndComplete(faults, 2), IsEmpty());
  EXPECT_THAT(FailAndComplete(faults, 3), IsEmpty());
  faults.Sweep([](std::uint64_t) { return false; }, [](const std::string&) { return false; });
  EXPECT_FALSE(faults.HasFailed(1, "a", 0));
  EXPECT_THAT(FailAndComplete(faults, 4), IsEmpty());
}

}  // namespace
}  // namespace buttress
