#include "lib/weights/source_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(SourceOrderTest, WorkersComeBeforeThePublisherInAnOrderThatDependsOnTheSeed) {
  const std::vector<std::string> sources = {"learner", "a", "b", "c"};
  std::set<std::string> first;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<std::string> order = SourceOrder(seed).Order(sources, 0);
    EXPECT_THAT(order, UnorderedElementsAre("learner", "a", "b", "c"));
    EXPECT_EQ(order.back(), "learner");
    first.insert(order.front());
  }
  EXPECT_THAT(first, ElementsAre("a", "b", "c"));
}

TEST(SourceOrderTest, AFailedSourceIsAskedLastUntilItSucceedsOrAMinuteHasPassed) {
  SourceOrder order(1);
  const std::vector<std::string> sources = {"learner", "a"};
  order.RecordFailure("a", 1000);
  EXPECT_THAT(order.Order(sources, 1000), ElementsAre("learner", "a"));
  order.RecordFailure("learner", 2000);
  EXPECT_THAT(order.Order(sources, 2000), ElementsAre("a", "learner"))
      << "all failed, so the order is as if none had";
  order.RecordSuccess("learner");
  EXPECT_THAT(order.Order(sources, 2000), ElementsAre("learner", "a"));
  EXPECT_THAT(order.Order(sources, 1000 + SourceOrder::kAvoidMs), ElementsAre("a", "learner"));
}

TEST(SourceOrderTest, NoSourcesGiveAnEmptyOrder) {
  EXPECT_THAT(SourceOrder(1).Order({}, 0), IsEmpty());
}

}  // namespace
}  // namespace buttress
