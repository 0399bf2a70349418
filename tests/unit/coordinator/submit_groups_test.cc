#include "coordinator/submit_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

TEST(GroupBufferTest, WhatItHoldsIsReservedAndGivenBack) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  constexpr std::uint64_t kTotal = 5 * kPart + 7;
  SubmitBudget budget;
  GroupBuffer buffer(budget);
  for (std::size_t left = kTotal; left > 0;) {
    std::string part(std::min(left, kPart), 'x');
    left -= part.size();
    ASSERT_TRUE(buffer.Append("a", part, kTotal));
    EXPECT_LT(part.capacity(), 100U) << "the part's memory is given back";
    EXPECT_LE(buffer.bytes().capacity(), kTotal) << "no more than the group needs";
    EXPECT_FALSE(budget.Reserve("a", SubmitBudget::kWorkerBytes - buffer.bytes().capacity() + 1));
  }
  EXPECT_EQ(buffer.bytes(), std::string(kTotal, 'x'));
  buffer.Clear();
  EXPECT_LT(buffer.bytes().capacity(), 100U);
  EXPECT_TRUE(budget.Reserve("a", SubmitBudget::kWorkerBytes));
  std::string part(kPart, 'x');
  EXPECT_FALSE(buffer.Append("a", part, kTotal));
  EXPECT_EQ(part.size(), kPart);
  EXPECT_TRUE(buffer.bytes().empty());
}

// Its last parts must not take more either, when the buffer would grow to twice its size.
TEST(GroupBufferTest, AGroupThatComesInSmallPartsHoldsNoMoreThanItsSizeToTheEnd) {
  constexpr std::uint64_t kTotal = 100'003;
  SubmitBudget budget;
  GroupBuffer buffer(budget);
  for (std::size_t left = kTotal; left > 0;) {
    std::string part(std::min<std::size_t>(left, 97), 'x');
    left -= part.size();
    ASSERT_TRUE(buffer.Append("slow", part, kTotal));
    ASSERT_LE(buffer.bytes().capacity(), kTotal);
    // What is left of the worker's bound is at least what the whole group leaves.
    ASSERT_TRUE(budget.Reserve("slow", SubmitBudget::kWorkerBytes - kTotal));
    budget.Release("slow", SubmitBudget::kWorkerBytes - kTotal);
  }
  EXPECT_FALSE(budget.Reserve("slow", SubmitBudget::kWorkerBytes - kTotal + 1));
  EXPECT_TRUE(budget.Reserve("other", SubmitBudget::kWorkerBytes));
}

TEST(SubmitBudgetTest, ASizeThatWouldOverflowIsRefused) {
  SubmitBudget budget;
  EXPECT_TRUE(budget.Reserve("a", 1));
  EXPECT_FALSE(budget.Reserve("a", ~std::uint64_t{0}));
}

}  // namespace
}  // namespace buttress
