#include "cli/explain/report_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Twenty steps of five groups of `size`, of which `constant` are all wrong; `tokens` of each
// completion.
ComparedReport Dump(const std::string& path, int constant, int size = 4, int tokens = 100) {
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (std::int64_t step = 1; step <= 20; ++step) {
    std::vector<GroupFacts> groups(5);
    for (int k = 0; k < 5; ++k) {
      GroupFacts& group = groups[static_cast<std::size_t>(k)];
      group.step = step;
      group.prompt_id = std::to_string(step) + "-" + std::to_string(k);
      for (int i = 0; i < size; ++i) {
        CompletionFacts& c = group.completions.emplace_back();
        c.SetRewards(k >= constant && i % 2 == 0 ? 1 : 0);
        c.tokens = tokens;
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return {{path, "plain dump, 1 file", {"a remark"}}, post_mortem.Finish()};
}

TEST(ReportComparisonTest, SharesHaveTheDifferenceAndItsInterval) {
  const auto json = ReportComparisonJson(Dump("a", 1), Dump("b", 3));
  EXPECT_EQ(json["first"]["acr"], 0.2);
  EXPECT_EQ(json["second"]["acr"], 0.6);
  const auto& acr = json["difference"]["acr"];
  EXPECT_NEAR(acr["value"].get<double>(), 0.4, 1e-12);
  // Newcombe's method 10 of 20 and 60 of 100.
  EXPECT_NEAR(acr["low"].get<double>(), 0.26773, 1e-5);
  EXPECT_NEAR(acr["high"].get<double>(), 0.51246, 1e-5);
}

TEST(ReportComparisonTest, TheTextSaysWhatIsBeyondChance) {
  const std::string text = ReportComparisonText(Dump("one", 1), Dump("other", 3));
  EXPECT_THAT(text, HasSubstr("A: one: plain dump, 1 file\n  note: a remark\n  conclusion: "));
  EXPECT_THAT(text, HasSubstr("B: other: plain dump, 1 file\n"));
  EXPECT_THAT(text, HasSubstr("+0.400 (+0.268 to +0.512) *\n"));
  EXPECT_THAT(text, Not(HasSubstr("groups of")));
  EXPECT_THAT(ReportComparisonText(Dump("a", 2), Dump("b", 2)), Not(HasSubstr(") *\n")));
}

TEST(ReportComparisonTest, AnotherGroupSizeIsNamed) {
  EXPECT_THAT(ReportComparisonText(Dump("a", 1, 4), Dump("b", 1, 8)),
              HasSubstr("note: A has groups of 4, B of 8: ACR falls with the size"));
}

TEST(ReportComparisonTest, EndsAreMeansOfATenthOfTheSteps) {
  const auto json = ReportComparisonJson(Dump("a", 1, 4, 100), Dump("b", 1, 4, 150));
  EXPECT_EQ(json["difference"]["tokens, last tenth"]["value"], 50);
  EXPECT_FALSE(json["difference"].contains("surprisal, last tenth"));
}

}  // namespace
}  // namespace buttress
