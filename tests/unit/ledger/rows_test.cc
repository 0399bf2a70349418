#include "lib/ledger/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lib/base/digest.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;

Completion Make(std::int32_t index, Outcome outcome, double reward,
                std::vector<PolicyVersion> versions) {
  Completion completion;
  completion.index = index;
  completion.token_ids = {1, 2, 3};
  completion.logprobs = {-0.5F, -0.25F, -1};
  completion.trained_spans = {{0, 2}};
  completion.outcome = outcome;
  completion.raw_reward = reward;
  completion.reward = reward / 2;
  for (std::size_t i = 0; i < versions.size(); ++i)
    completion.segments.push_back({static_cast<std::int32_t>(i), versions[i]});
  if (outcome != Outcome::kUnscorable)
    completion.components = {{"answer", reward, 0.5}, {"format", 7, 0}};
  return completion;
}

TEST(SummarizeGroup, KeepsCompletionsByIndexAndEveryVersionOnce) {
  Group group;
  group.group_id = 9;
  group.prompt_token_ids = {5, 6};
  group.completions = {Make(1, Outcome::kWrong, 0, {{1, 4, "d"}, {2, 4, "d"}}),
                       Make(0, Outcome::kCorrect, 1, {{1, 4, "d"}})};
  const v1::GroupHead head = SummarizeGroup(group);
  EXPECT_EQ(head.group_id(), 9);
  EXPECT_EQ(head.prompt_tokens(), 2);
  ASSERT_EQ(CompletionsOf(head), 2);
  EXPECT_EQ(OutcomeOf(head, 0), Outcome::kCorrect);
  EXPECT_EQ(head.trained_lengths(0), 2);
  EXPECT_EQ(head.lengths(0), 3);
  EXPECT_DOUBLE_EQ(head.rewards(0), 0.5);
  ASSERT_EQ(head.versions_size(), 2);
  EXPECT_EQ(head.versions(0).learner_epoch(), 1U);
  EXPECT_EQ(head.versions(1).learner_epoch(), 2U);
  EXPECT_THAT(head.component_names(), ElementsAre("answer", "format"));
  EXPECT_THAT(head.components(), ElementsAre(1, 7, 0, 7));
  EXPECT_EQ(ClassOf(head), CollapseClass::kMixed);
}

TEST(SummarizeGroup, KeepsDigestSketchAndLogprobSumOfTheTokens) {
  Group group;
  group.completions = {Make(0, Outcome::kCorrect, 1, {}), Make(1, Outcome::kWrong, 0, {}),
                       Make(2, Outcome::kWrong, 0, {})};
  group.completions[2].token_ids.back() = 4;
  const v1::GroupHead head = SummarizeGroup(group);
  EXPECT_EQ(head.logprob_sums(0), -1.75);
  // SHA-256 of 01 00 00 00 02 00 00 00 03 00 00 00.
  EXPECT_EQ(ToHex(TokenDigestOf(head, 0)), "4636993d3e1da4e9d6b8f87b79e8f7c6");
  EXPECT_EQ(TokenDigestOf(head, 0), TokenDigestOf(head, 1));
  EXPECT_NE(TokenDigestOf(head, 0), TokenDigestOf(head, 2));
  EXPECT_EQ(Similarity(TokenSketchOf(head, 0), TokenSketchOf(head, 1)), 1);
  EXPECT_EQ(Similarity(TokenSketchOf(head, 0), TokenSketchOf(head, 2)), 0);
}

TEST(SummarizeGroup, AnUnscorableCompletionDoesNotDecideTheClass) {
  Group group;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  group.completions = {Make(0, Outcome::kUnscorable, nan, {}),
                       Make(1, Outcome::kWrong, 0, {{1, 4, ""}}),
                       Make(2, Outcome::kWrong, 0, {{1, 4, ""}})};
  const v1::GroupHead head = SummarizeGroup(group);
  EXPECT_EQ(ClassOf(head), CollapseClass::kAllWrong);
  EXPECT_DOUBLE_EQ(head.raw_rewards(0), 0);
  EXPECT_THAT(head.components(), ElementsAre(0, 0, 0, 7, 0, 7));
}

TEST(ContentTag, IsTheBeginningOfTheHashAndNeverZero) {
  EXPECT_EQ(ContentTag("\x01\x02\x03\x04\x05\x06\x07\x08" + std::string(24, 'x')),
            0x0102030405060708U);
  EXPECT_EQ(ContentTag(std::string(32, '\0')), 1);
}

}  // namespace
}  // namespace buttress
