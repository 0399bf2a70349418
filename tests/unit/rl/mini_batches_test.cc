#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "lib/rl/placement.h"

namespace buttress {
namespace {

// Offsets of groups of 0 to 5 completions.
std::vector<std::int32_t> RandomOffsets(RandomStream& random) {
  std::vector<std::int32_t> offsets = {0};
  for (std::uint64_t k = 1 + random.Below(20); k > 0; --k)
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(random.Below(6)));
  return offsets;
}

// The smallest and the largest number of items that a mini-batch has.
std::pair<std::int64_t, std::int64_t> Sizes(const std::vector<std::int32_t>& items,
                                            std::int32_t count) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), 0);
  for (const std::int32_t mini_batch : items) ++sizes.at(static_cast<std::size_t>(mini_batch));
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  return {*least, *most};
}

TEST(DrawMiniBatchesTest, KeepsGroupsWholeAndSizesEqual) {
  RandomStream random({20261122, 1});
  for (std::uint64_t trial = 0; trial < 500; ++trial) {
    const std::vector<std::int32_t> offsets = RandomOffsets(random);
    const auto count = static_cast<std::int32_t>(1 + random.Below(6));
    const auto rows = DrawMiniBatches(offsets, count, MiniBatchOf::kPrompts, {7, trial});
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(offsets.back()));
    const auto completions = DrawMiniBatches(offsets, count, MiniBatchOf::kCompletions, {7, trial});
    const auto [least, most] = Sizes(completions, count);
    EXPECT_LE(most - least, 1);
    for (std::size_t k = 0; k + 1 < offsets.size(); ++k) {
      for (std::int32_t row = offsets[k]; row < offsets[k + 1]; ++row) {
        EXPECT_EQ(rows[static_cast<std::size_t>(row)], rows[static_cast<std::size_t>(offsets[k])]);
      }
    }
  }
}

TEST(DrawMiniBatchesTest, DealsOutAsManyPromptsToEachMiniBatch) {
  std::vector<std::int32_t> offsets;
  for (std::int32_t k = 0; k <= 10; ++k) offsets.push_back(k);  // groups of one completion
  const auto rows = DrawMiniBatches(offsets, 4, MiniBatchOf::kPrompts, {1, 1});
  EXPECT_EQ(Sizes(rows, 4), (std::pair<std::int64_t, std::int64_t>{2, 3}));
}

TEST(DrawMiniBatchesTest, DependsOnTheKeyAlone) {
  const std::vector<std::int32_t> offsets = {0, 8, 16, 24, 32};
  std::set<std::vector<std::int32_t>> draws;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto draw = DrawMiniBatches(offsets, 4, MiniBatchOf::kCompletions, {1, step});
    EXPECT_EQ(draw, DrawMiniBatches(offsets, 4, MiniBatchOf::kCompletions, {1, step}));
    draws.insert(draw);
  }
  EXPECT_EQ(draws.size(), 20U);
}

}  // namespace
}  // namespace buttress
