#include <gtest/gtest.h>

#include "coordinator/service.h"

namespace buttress {
namespace {

TEST(SubmitBudgetTest, AWorkerCannotHoldMoreThanItsShare) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Take("a", SubmitBudget::kWorkerBytes));
  EXPECT_FALSE(budget.Take("a", 1));
  EXPECT_TRUE(budget.Take("b", 1));
  budget.GiveBack("a", 1);
  EXPECT_TRUE(budget.Take("a", 1));
}

TEST(SubmitBudgetTest, AllTogetherAreBounded) {
  SubmitBudget budget;
  std::uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    taken += budget.Take("w" + std::to_string(i), SubmitBudget::kWorkerBytes)
                 ? SubmitBudget::kWorkerBytes
                 : 0;
  }
  EXPECT_EQ(taken, SubmitBudget::kTotalBytes);
}

TEST(SubmitBudgetTest, ASizeThatWouldOverflowIsRefused) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Take("a", 1));
  EXPECT_FALSE(budget.Take("a", ~std::uint64_t{0}));
}

}  // namespace
}  // namespace buttress
