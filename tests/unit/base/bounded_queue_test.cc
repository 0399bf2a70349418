#include "lib/base/thread/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace buttress {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueueTest, AFullQueueRefusesAndLeavesTheItemToTheCaller) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  EXPECT_TRUE(queue.Push(first, 0ms));
  EXPECT_FALSE(queue.Push(second, 0ms));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
}

TEST(BoundedQueueTest, AClosedQueueDrainsAndAcceptsNothingMore) {
  BoundedQueue<int> queue(4);
  int item = 7;
  EXPECT_TRUE(queue.Push(item, 0ms));
  queue.Close();
  EXPECT_FALSE(queue.Push(item, 1h));
  EXPECT_EQ(queue.Pop(1h), 7);
  EXPECT_EQ(queue.Pop(1h), std::nullopt);
}

TEST(BoundedQueueTest, EveryItemOfSeveralWritersArrivesOnce) {
  BoundedQueue<int> queue(3);
  std::vector<std::jthread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&queue, w] {
      for (int i = 0; i < 250; ++i) {
        int item = w * 250 + i;
        EXPECT_TRUE(queue.Push(item, 10s));
      }
    });
  }
  std::vector<int> seen(1000);
  for (int i = 0; i < 1000; ++i) {
    const auto item = queue.Pop(10s);
    ASSERT_TRUE(item.has_value());
    ++seen[static_cast<std::size_t>(*item)];
  }
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace buttress
