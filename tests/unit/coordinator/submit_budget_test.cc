#include <gtest/gtest.h>

#include "coordinator/service.h"

namespace buttress {
namespace {

TEST(SubmitBudgetTest, AWorkerCannotHoldMoreThanItsShare) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Reserve("a", SubmitBudget::kWorkerBytes));
  EXPECT_FALSE(budget.Reserve("a", 1));
  EXPECT_TRUE(budget.Reserve("b", 1));
  budget.Release("a", 1);
  EXPECT_TRUE(budget.Reserve("a", 1));
}

TEST(SubmitBudgetTest, AllTogetherAreBounded) {
  SubmitBudget budget;
  std::uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    taken += budget.Reserve("w" + std::to_string(i), SubmitBudget::kWorkerBytes)
                 ? SubmitBudget::kWorkerBytes
                 : 0;
  }
  EXPECT_EQ(taken, SubmitBudget::kTotalBytes);
}

TEST(SubmitBudgetTest, ASizeThatWouldOverflowIsRefused) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Reserve("a", 1));
  EXPECT_FALSE(budget.Reserve("a", ~std::uint64_t{0}));
}

}  // namespace
}  // namespace buttress
