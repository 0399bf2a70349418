#include "lib/rl/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace buttress {
namespace {

CompletionLoad Load(std::int32_t tokens, bool has_advantage = true, bool scorable = true) {
  return {.prompt_tokens = 0,
          .completion_tokens = tokens,
          .trained_tokens = tokens,
          .scorable = scorable,
          .has_advantage = has_advantage};
}

// Forward tokens of one rank.
std::int64_t RankTokens(const Placement& placement, std::int32_t rank) {
  std::int64_t tokens = 0;
  for (const PlacedRows& batch : placement.updates[0].micro_batches[static_cast<std::size_t>(rank)])
    tokens += batch.forward_tokens;
  return tokens;
}

TEST(PlaceGroupsTest, PutsTheHeaviestGroupsOnTheLightestRankFirst) {
  // Groups of 7, 5, 4, 3, 1 tokens on two ranks: 7 | 5, then 4 to the second, 3 to the first, and 1
  // to the second.
  const std::vector<CompletionLoad> loads = {Load(3), Load(7), Load(1), Load(5), Load(4)};
  const auto placement = PlaceGroups(loads, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5},
                                     {.ranks = 2, .micro_batch_tokens = 10});
  EXPECT_EQ(placement.rank_of_group, (std::vector<std::int32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(RankTokens(placement, 0), 10);
  EXPECT_EQ(RankTokens(placement, 1), 10);
  EXPECT_EQ(placement.updates[0].rounds, 1);
}

TEST(PlaceGroupsTest, KeepsAGroupOnOneRankAndALongCompletionAlone) {
  const std::vector<CompletionLoad> loads = {Load(30), Load(4), Load(6), Load(5)};
  const auto placement =
      PlaceGroups(loads, std::vector<std::int32_t>{0, 4}, {.ranks = 2, .micro_batch_tokens = 10});
  EXPECT_EQ(placement.rank_of_group, (std::vector<std::int32_t>{0}));
  ASSERT_EQ(placement.updates[0].micro_batches[0].size(), 3U);
  EXPECT_EQ(placement.updates[0].micro_batches[0][0].completions,
            (std::vector<std::int32_t>{0}));  // 30 alone
  EXPECT_EQ(placement.updates[0].micro_batches[0][1].completions,
            (std::vector<std::int32_t>{1, 2}));  // 6 + 4
  EXPECT_EQ(placement.updates[0].micro_batches[0][2].completions, (std::vector<std::int32_t>{3}));
  EXPECT_TRUE(placement.updates[0].micro_batches[1].empty());
  EXPECT_EQ(placement.updates[0].rounds, 3);
}

TEST(PlaceGroupsTest, RunsThePromptOfAGroupOnce) {
  // Three groups of 8 completions of 10 to 17 tokens with prompts of 100: two groups fit together.
  std::vector<CompletionLoad> loads;
  for (std::int32_t i = 0; i < 24; ++i) {
    loads.push_back(Load(10 + i % 8));
    loads.back().prompt_tokens = 100;
  }
  const auto placement = PlaceGroups(loads, std::vector<std::int32_t>{0, 8, 16, 24},
                                     {.ranks = 1, .micro_batch_tokens = 500});
  ASSERT_EQ(placement.updates[0].micro_batches[0].size(), 2U);
  EXPECT_EQ(placement.updates[0].micro_batches[0][0].completions.size(), 16U);
  EXPECT_EQ(placement.updates[0].micro_batches[0][0].forward_tokens, 2 * (100 + 108));
  EXPECT_EQ(RankTokens(placement, 0), 3 * (100 + 108));
}

TEST(PlaceGroupsTest, CutsAGroupThatDoesNotFit) {
  // A prompt of 6 and completions of 5, 4, 3, 2: 6 + 5 + 3 and 6 + 4 + 2 in 14 tokens.
  std::vector<CompletionLoad> loads = {Load(2), Load(3), Load(4), Load(5)};
  for (CompletionLoad& load : loads) load.prompt_tokens = 6;
  const auto placement =
      PlaceGroups(loads, std::vector<std::int32_t>{0, 4}, {.ranks = 1, .micro_batch_tokens = 14});
  ASSERT_EQ(placement.updates[0].micro_batches[0].size(), 2U);
  EXPECT_EQ(placement.updates[0].micro_batches[0][0].completions,
            (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(placement.updates[0].micro_batches[0][1].completions,
            (std::vector<std::int32_t>{0, 2}));
}

// Prompts of 6 and completions of 5, 4, 3, 2: the largest group that may run together has two.
TEST(PlaceGroupsTest, CutsAGroupThatExceedsTheBytes) {
  std::vector<CompletionLoad> loads = {Load(2), Load(3), Load(4), Load(5)};
  for (CompletionLoad& load : loads) load.prompt_tokens = 6;
  loads[3].trained_tokens = 1;
  std::vector<MicroBatchShape> asked;
  PlacementOptions options;
  options.bound = {[&](const MicroBatchShape& shape) {
                     asked.push_back(shape);
                     return static_cast<double>(shape.sequences.size());
                   },
                   3};
  const Placement placement = PlaceGroups(loads, std::vector<std::int32_t>{0, 4}, options);
  const std::vector<PlacedRows>& batches = placement.updates[0].micro_batches[0];
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].completions, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(batches[1].completions, (std::vector<std::int32_t>{0, 1}));
  // The prompt and behind it all tokens of each completion but the last.
  using Sequence = MicroBatchShape::Sequence;
  EXPECT_EQ(asked[0].sequences, (std::vector<Sequence>{{6, 0}, {3, 6}, {4, 6}}));
  EXPECT_EQ(asked[0].scored, 4 + 1);
}

TEST(PlaceGroupsTest, LeavesOutGroupsWithoutAdvantagesUnlessOptionsAskForThem) {
  const std::vector<CompletionLoad> loads = {Load(2, false), Load(2, false), Load(3, false),
                                             Load(3, true)};
  const std::vector<std::int32_t> offsets = {0, 2, 4};
  const auto skipped = PlaceGroups(loads, offsets, {});
  EXPECT_EQ(skipped.rank_of_group, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_EQ(RankTokens(skipped, 0), 6);  // a zero advantage inside a mixed group is run
  const auto all = PlaceGroups(loads, offsets, {.run_zero_advantage_groups = true});
  EXPECT_EQ(RankTokens(all, 0), 10);
}

TEST(PlaceGroupsTest, LeavesOutUnscorableCompletionsAndThoseWithoutTrainedTokens) {
  std::vector<CompletionLoad> loads = {Load(2, true, false), Load(2), Load(2)};
  loads[2].trained_tokens = 0;
  const auto placement = PlaceGroups(loads, std::vector<std::int32_t>{0, 3}, {});
  ASSERT_EQ(placement.updates[0].micro_batches[0].size(), 1U);
  EXPECT_EQ(placement.updates[0].micro_batches[0][0].completions, (std::vector<std::int32_t>{1}));
}

TEST(PlaceGroupsTest, AStepWithoutWorkHasNoRounds) {
  const auto placement = PlaceGroups(std::vector<CompletionLoad>{Load(2, false)},
                                     std::vector<std::int32_t>{0, 1}, {.ranks = 3});
  EXPECT_EQ(placement.updates[0].rounds, 0);
  EXPECT_EQ(placement.updates[0].micro_batches.size(), 3U);
}

}  // namespace
}  // namespace buttress
