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
  const AcceptedRow row = SummarizeGroup(group);
  EXPECT_EQ(row.group_id, 9);
  EXPECT_EQ(row.prompt_tokens, 2);
  ASSERT_EQ(row.completions.size(), 2);
  EXPECT_EQ(row.completions[0].outcome, Outcome::kCorrect);
  EXPECT_EQ(row.completions[0].trained_tokens, 2);
  EXPECT_EQ(row.completions[0].total_tokens, 3);
  EXPECT_DOUBLE_EQ(row.completions[0].reward, 0.5);
  EXPECT_THAT(row.versions, ElementsAre(PolicyVersion{1, 4, ""}, PolicyVersion{2, 4, ""}));
  EXPECT_THAT(row.component_names, ElementsAre("answer", "format"));
  EXPECT_THAT(row.components, ElementsAre(1, 7, 0, 7));
  EXPECT_EQ(row.collapse, CollapseClass::kMixed);
}

TEST(SummarizeGroup, KeepsDigestSketchAndLogprobSumOfTheTokens) {
  Group group;
  group.completions = {Make(0, Outcome::kCorrect, 1, {}), Make(1, Outcome::kWrong, 0, {}),
                       Make(2, Outcome::kWrong, 0, {})};
  group.completions[2].token_ids.back() = 4;
  const AcceptedRow row = SummarizeGroup(group);
  EXPECT_EQ(row.completions[0].logprob_sum, -1.75);
  // SHA-256 of 01 00 00 00 02 00 00 00 03 00 00 00.
  EXPECT_EQ(ToHex(row.completions[0].token_digest), "4636993d3e1da4e9d6b8f87b79e8f7c6");
  EXPECT_EQ(row.completions[0].token_digest, row.completions[1].token_digest);
  EXPECT_NE(row.completions[0].token_digest, row.completions[2].token_digest);
  EXPECT_EQ(Similarity(row.completions[0].token_sketch, row.completions[1].token_sketch), 1);
  EXPECT_EQ(Similarity(row.completions[0].token_sketch, row.completions[2].token_sketch), 0);
}

TEST(SummarizeGroup, AnUnscorableCompletionDoesNotDecideTheClass) {
  Group group;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  group.completions = {Make(0, Outcome::kUnscorable, nan, {}),
                       Make(1, Outcome::kWrong, 0, {{1, 4, ""}}),
                       Make(2, Outcome::kWrong, 0, {{1, 4, ""}})};
  const AcceptedRow row = SummarizeGroup(group);
  EXPECT_EQ(row.collapse, CollapseClass::kAllWrong);
  EXPECT_DOUBLE_EQ(row.completions[0].raw_reward, 0);
  EXPECT_THAT(row.components, ElementsAre(0, 0, 0, 7, 0, 7));
}

TEST(ContentTag, IsTheBeginningOfTheHashAndNeverZero) {
  EXPECT_EQ(ContentTag("\x01\x02\x03\x04\x05\x06\x07\x08" + std::string(24, 'x')),
            0x0102030405060708U);
  EXPECT_EQ(ContentTag(std::string(32, '\0')), 1);
}

}  // namespace
}  // namespace buttress
