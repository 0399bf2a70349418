#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/reference/advantages.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorOf(const std::string& text) {
  const auto batch = ParseGroups(text, "g.jsonl");
  EXPECT_FALSE(batch.ok());
  if (batch.ok()) return "";
  EXPECT_EQ(ExitCode(batch.status()), 2);
  return batch.status().message();
}

TEST(ParseGroupsTest, ReadsEveryField) {
  const auto batch = ParseGroups(
      R"({"id": "a", "rewards": [1, 0, null], "lengths": [3, 5, 2],)"
      R"( "outcomes": ["correct", "wrong", "unscorable"],)"
      R"( "components": [[1, 0.5], [0, 0.25], [0, 0]], "history": {"correct": 2, "scored": 9}})"
      "\n\n"
      R"({"id": 7, "rewards": [0.5], "lengths": [0], "outcomes": ["wrong"],)"
      R"( "components": [[2, 3]]})",
      "g.jsonl");
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(batch->ids, ElementsAre("a", 7));
  EXPECT_THAT(batch->group_offsets, ElementsAre(0, 3, 4));
  EXPECT_EQ(batch->rewards[1], 0.0);
  EXPECT_TRUE(std::isnan(batch->rewards[2]));
  EXPECT_THAT(batch->lengths, ElementsAre(3, 5, 2, 0));
  EXPECT_THAT(batch->outcomes, ElementsAre(Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable,
                                           Outcome::kWrong));
  EXPECT_THAT(batch->components, ElementsAre(1, 0.5, 0, 0.25, 0, 0, 2, 3));
  EXPECT_THAT(batch->history, ElementsAre(PromptHistory{2, 9}, PromptHistory{0, 0}));
  EXPECT_TRUE(batch->has_lengths);
  EXPECT_TRUE(batch->unread.empty());
}

TEST(ParseGroupsTest, DeepJsonIsAnErrorOfItsLine) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_THAT(ErrorOf("{\"rewards\": [1]}\n{\"rewards\": " + deep + "}"),
              HasSubstr("g.jsonl:2: nested deeper than 64"));
}

TEST(ParseGroupsTest, RewardsAreEnough) {
  const auto batch = ParseGroups("\n{\"rewards\": [1, 0]}\r\n", "g.jsonl");
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(batch->ids, ElementsAre(2));  // its line
  EXPECT_THAT(batch->lengths, ElementsAre(1, 1));
  EXPECT_FALSE(batch->has_lengths);
  EXPECT_TRUE(batch->outcomes.empty() && batch->components.empty());
}

TEST(ParseGroupsTest, NamesFieldsThatNobodyReads) {
  const auto batch = ParseGroups(
      "{\"rewards\": [1], \"lenghts\": [3]}\n{\"rewards\": [1], \"lenghts\": [3], \"x\": 1}\n",
      "g.jsonl");
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_THAT(batch->unread, ElementsAre("lenghts", "x"));
}

TEST(ParseGroupsTest, ReportsEveryErrorWithItsLine) {
  const std::string error = ErrorOf(
      "{\"id\": [1], \"rewards\": [1, 0, \"x\"], \"lengths\": [1, 2]}\n"
      "nonsense\n"
      "{\"rewards\": []}\n"
      "{\"rewards\": 3}\n"
      "{\"rewards\": [1, 2], \"lengths\": [-1, 2.5], \"history\": {\"correct\": 3, \"scored\": "
      "2}}\n");
  EXPECT_THAT(error, HasSubstr("9 errors"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:1: id = [1]; expected text or a number"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:1: rewards[2] = \"x\"; expected null or a number"));
  EXPECT_THAT(error,
              HasSubstr("g.jsonl:1: lengths = [1,2]; expected a list of 3, one per completion"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:2: not a JSON object: byte 2 is no JSON; expected one"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:3: expected a list 'rewards'"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:4: expected a list 'rewards'"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:5: lengths[0] = -1"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:5: lengths[1] = 2.5"));
  EXPECT_THAT(error, HasSubstr("g.jsonl:5: history = {\"correct\":3,\"scored\":2}; expected"));
}

TEST(ParseGroupsTest, RewardsAreBoundedAsThoseOfARunAre) {
  EXPECT_TRUE(ParseGroups("{\"rewards\": [1e6, -1e6]}", "g.jsonl").ok());
  EXPECT_THAT(ErrorOf("{\"rewards\": [1, 1e300]}"),
              HasSubstr("g.jsonl:1: rewards[1] = 1e+300; expected null or a number from -1e+06 to "
                        "1e+06"));
  EXPECT_THAT(ErrorOf("{\"rewards\": [1, NaN]}"), HasSubstr("it has NaN, which JSON has not"));
}

TEST(ParseGroupsTest, OutcomesMustAgreeWithTheirRewards) {
  EXPECT_THAT(ErrorOf("{\"rewards\": [1, null], \"outcomes\": [\"correct\", \"wrong\"]}"),
              HasSubstr("outcomes[1] = \"wrong\"; expected \"unscorable\""));
  EXPECT_THAT(ErrorOf("{\"rewards\": [1], \"outcomes\": [\"rong\"]}"),
              HasSubstr("outcomes[0] = \"rong\""));
  EXPECT_THAT(ErrorOf("{\"rewards\": [1], \"outcomes\": [\"correct\"]}\n{\"rewards\": [1]}"),
              HasSubstr("g.jsonl:2: no outcomes, unlike"));
}

TEST(ParseGroupsTest, ComponentsMustBeOfOneShape) {
  EXPECT_THAT(ErrorOf("{\"rewards\": [1, 0], \"components\": [[1, 2], [1]]}"),
              HasSubstr("components[1] = [1]; expected a list of 2 numbers"));
  EXPECT_THAT(ErrorOf("{\"rewards\": [1], \"components\": [[1, 2]]}\n{\"rewards\": [1], "
                      "\"components\": [[1]]}"),
              HasSubstr("g.jsonl:2: 1 components, 2 in the groups before"));
  EXPECT_THAT(ErrorOf("{\"rewards\": [1], \"components\": [[1, 2]]}\n{\"rewards\": [1]}"),
              HasSubstr("g.jsonl:2: 0 components"));
}

TEST(ParseGroupsTest, ListsAHundredErrorsAndCountsTheRest) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += "x\n";
  const std::string error = ErrorOf(text);
  EXPECT_THAT(error, HasSubstr("g.jsonl:100: "));
  EXPECT_THAT(error, Not(HasSubstr("g.jsonl:101: ")));
  EXPECT_THAT(error, HasSubstr("... and 50 more"));
}

}  // namespace
}  // namespace buttress
