#include "cli/explain/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/random.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Ten steps of four groups each: one all-correct, one all-wrong, two mixed. All all-correct groups
// have the same prompt.
Report SmallRun() {
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (std::int64_t step = 1; step <= 10; ++step) {
    std::vector<GroupFacts> groups;
    for (int kind = 0; kind < 4; ++kind) {
      GroupFacts& group = groups.emplace_back();
      group.step = step;
      group.prompt_id = kind == 0 ? "easy <one>" : "p" + std::to_string(4 * step + kind);
      group.source = kind < 2 ? "a&b" : "c";
      group.where = "1.jsonl:" + std::to_string(step);
      for (int i = 0; i < 4; ++i) {
        CompletionFacts& c = group.completions.emplace_back();
        c.raw_reward = c.reward = kind == 0 || (kind > 1 && i < kind - 1) ? 1 : 0;
        c.tokens = 100 + i;
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return post_mortem.Finish();
}

const ReportHead kHead = {"dump<1>", "verl dump, 10 files", {"a remark"}};

TEST(ReportTest, CountsAreExact) {
  const Report report = SmallRun();
  EXPECT_EQ(report.counts, (CollapseCounts{.groups = 40,
                                           .all_correct = 10,
                                           .all_wrong = 10,
                                           .other_constant = 0,
                                           .mixed = 20,
                                           .unscorable = 0}));
  EXPECT_EQ(report.all.collapsed, 20);
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kTooEasy)], 10);
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kTooHard)], 10);
  EXPECT_EQ(report.near_collapse, 10);  // one of four correct
  EXPECT_EQ(report.with_history, 9);    // the easy prompt from its second visit on
  EXPECT_EQ(report.observed_acr, 1.0);
  EXPECT_EQ(report.sources.at("a&b").collapsed, 20);
  EXPECT_EQ(report.sources.at("c").collapsed, 0);
  EXPECT_EQ(report.worst_prompts[0].prompt_id, "easy <one>");
  EXPECT_EQ(report.worst_prompts[0].record.groups, 10);
}

TEST(ReportTest, ExpectedAcrFollowsFromTheHistories) {
  const Report report = SmallRun();
  double expected = 0;
  for (std::int64_t visit = 1; visit < 10; ++visit)
    expected += ExpectedCollapse({4 * visit, 4 * visit}, 4);
  EXPECT_NEAR(report.expected_acr, expected / 9, 1e-12);
}

TEST(ReportTest, RemediesEqualTheEstimators) {
  const RemedyReport remedies = SmallRun().remedies;
  EXPECT_EQ(remedies.groups, 40);
  EXPECT_EQ(remedies.estimators[0].name, "grpo");
  EXPECT_EQ(remedies.estimators[0].with_advantage, 20);
  EXPECT_EQ(remedies.estimators[0].collapsed_with_advantage, 0);
  EXPECT_EQ(remedies.estimators[1].name, "avspo, mode opposite");
  EXPECT_EQ(remedies.estimators[1].with_advantage, 40);  // ACR 0.5 is above its gate of 0.3
  EXPECT_EQ(remedies.draws_for_full_batch, 2.0);
  EXPECT_EQ(remedies.skip.visits, 9);
  EXPECT_EQ(remedies.skip.skipped, 9);
  EXPECT_EQ(remedies.skip.rightly, 9);
  ASSERT_EQ(remedies.sizes.size(), 3);
  EXPECT_GT(remedies.sizes[0].expected_acr, remedies.sizes[2].expected_acr);
}

TEST(ReportTest, TheTextHasCausesStepsAndAdvice) {
  const std::string text = ReportText(kHead, SmallRun());
  EXPECT_THAT(text, HasSubstr("note: a remark"));
  EXPECT_THAT(text,
              HasSubstr("ACR 0.500 = 20 of 40 groups (all-correct 10, all-wrong 10, other 0)"));
  EXPECT_THAT(text, HasSubstr("too easy                 10   50.0 %"));
  EXPECT_THAT(
      text,
      HasSubstr("what to do next:\n  - too easy (10 groups, 25.0 % of all): draw it less often"));
}

TEST(ReportTest, TheSummaryIsOneObjectOnOneLine) {
  const std::string line = ReportJson(kHead, SmallRun());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(json.contains("summary"));
  EXPECT_EQ(json["summary"]["acr"], 0.5);
  EXPECT_EQ(json["summary"]["causes"]["too hard"], 10);
  EXPECT_EQ(json["summary"]["steps"].size(), 10);
  EXPECT_EQ(json["summary"]["remedies"]["estimators"][0]["with_advantage"], 20);
}

TEST(ReportTest, ThePageIsSelfContainedAndEscaped) {
  const std::string html = ReportHtml(kHead, SmallRun());
  EXPECT_THAT(html, HasSubstr("dump&lt;1&gt;"));
  EXPECT_THAT(html, HasSubstr("easy &lt;one&gt;"));
  EXPECT_THAT(html, HasSubstr("a&amp;b"));
  EXPECT_THAT(html, Not(HasSubstr("easy <one>")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("href")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, HasSubstr("<svg"));
}

TEST(ReportTest, AGroupWithoutASignalIsOneObject) {
  const auto json = nlohmann::json::parse(
      CollapsedGroupJson(
          {3, "p", "s", "", "1.jsonl:4", CollapseClass::kMixed, {Cause::kFloatNoise, "because"}}),
      nullptr, false);
  EXPECT_EQ(json["cause"], "float noise");
  EXPECT_EQ(json["collapse"], "by_rounding");
  EXPECT_EQ(json["step"], 3);
  EXPECT_FALSE(json.contains("sampler"));
}

}  // namespace
}  // namespace buttress
