#include "coordinator/submit_groups.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(SubmitBudgetTest, AWorkerCannotReserveMoreThanItsBound) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Reserve("a", SubmitBudget::kWorkerBytes));
  EXPECT_FALSE(budget.Reserve("a", 1));
  EXPECT_TRUE(budget.Reserve("b", 1));
  budget.Release("a", 1);
  EXPECT_TRUE(budget.Reserve("a", 1));
}

TEST(SubmitBudgetTest, AllWorkersTogetherAreBounded) {
  SubmitBudget budget;
  std::uint64_t reserved = 0;
  for (int i = 0; i < 100; ++i) {
    reserved += budget.Reserve("w" + std::to_string(i), SubmitBudget::kWorkerBytes)
                    ? SubmitBudget::kWorkerBytes
                    : 0;
  }
  EXPECT_EQ(reserved, SubmitBudget::kTotalBytes);
}

TEST(SubmitBudgetTest, ASizeThatWouldOverflowIsRefused) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Reserve("a", 1));
  EXPECT_FALSE(budget.Reserve("a", ~std::uint64_t{0}));
}

}  // namespace
}  // namespace buttress
