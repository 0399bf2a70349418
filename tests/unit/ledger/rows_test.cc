#include "lib/ledger/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/text/digest.h"
#include "tests/support/test_group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;

// Appends three tokens, of which two are trained.
void Add(v1::Group& group, Outcome outcome, double reward, std::int32_t last_token = 3) {
  AppendTokens(group, std::vector<std::int32_t>{1, 2, last_token},
               std::vector<float>{-0.5F, -0.25F, -1}, FinishReason::kStop);
  const std::vector<double> components = {reward, 7};
  AppendReward(*group.mutable_head(), outcome, reward, reward / 2,
               outcome == Outcome::kUnscorable ? std::vector<double>() : components);
  AddTrainedSpan(group, Completions(group.head()) - 1, {0, 2});
}

v1::Group Empty() {
  v1::Group group = NewGroup(9, {5, 6}, {1, 4, std::string(32, 'd')});
  for (const char* name : {"answer", "format"}) group.mutable_head()->add_component_names(name);
  return group;
}

TEST(SummarizeGroup, KeepsColumnsAndEveryVersionOnce) {
  v1::Group group = Empty();
  *group.mutable_head()->add_versions() = ToProto(PolicyVersion{2, 4, std::string(32, 'e')});
  Add(group, Outcome::kCorrect, 1);
  Add(group, Outcome::kWrong, 0);
  AddSegment(group, 0, 0, 0);
  AddSegment(group, 1, 0, 0);
  AddSegment(group, 1, 1, 1);
  const v1::GroupHead head = SummarizeGroup(group);
  EXPECT_EQ(head.group_id(), 9);
  EXPECT_EQ(head.prompt_tokens(), 2);
  ASSERT_EQ(CompletionsOf(head), 2);
  EXPECT_EQ(OutcomeOf(head, 0), Outcome::kCorrect);
  EXPECT_EQ(head.trained_lengths(0), 2);
  EXPECT_EQ(head.lengths(0), 3);
  EXPECT_DOUBLE_EQ(head.rewards(0), 0.5);
  EXPECT_EQ(head.versions_size(), 2);
  EXPECT_THAT(head.component_names(), ElementsAre("answer", "format"));
  EXPECT_THAT(head.components(), ElementsAre(1, 7, 0, 7));
  EXPECT_EQ(ClassOf(head), CollapseClass::kMixed);
}

TEST(SummarizeGroup, KeepsDigestSketchAndLogprobSumOfTheTokens) {
  v1::Group group = Empty();
  Add(group, Outcome::kCorrect, 1);
  Add(group, Outcome::kWrong, 0);
  Add(group, Outcome::kWrong, 0, 4);
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
  v1::Group group = Empty();
  Add(group, Outcome::kUnscorable, 1);
  Add(group, Outcome::kWrong, 0);
  Add(group, Outcome::kWrong, 0);
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
