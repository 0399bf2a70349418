#include "coordinator/payload_sync.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace buttress {
namespace {

TEST(PayloadSyncTest, EverySyncRunsOnOneOtherThreadAndItsStatusIsReturnedOnce) {
  std::set<std::thread::id> threads;
  int syncs = 0;
  PayloadSync sync([&] {
    threads.insert(std::this_thread::get_id());
    return ++syncs % 2 == 0 ? Unavailable("the disk") : OkStatus();
  });
  for (int i = 1; i <= 100; ++i) {
    EXPECT_FALSE(sync.under_way());
    sync.Begin();
    EXPECT_TRUE(sync.under_way());
    EXPECT_EQ(sync.Wait().ok(), i % 2 == 1);
    EXPECT_EQ(syncs, i);
  }
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(PayloadSyncTest, TheOwnerGoesOnWhileASyncIsUnderWay) {
  std::atomic<bool> let_end = false;
  PayloadSync sync([&] {
    while (!let_end) std::this_thread::yield();
    return OkStatus();
  });
  sync.Begin();
  let_end = true;  // reached although the sync has not ended
  EXPECT_TRUE(sync.Wait().ok());
}

TEST(PayloadSyncTest, ASyncThatIsUnderWayEndsBeforeTheThreadDoes) {
  std::atomic<bool> ended = false;
  {
    PayloadSync sync([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
      return OkStatus();
    });
    sync.Begin();
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace buttress
