#include "cli/explain/report.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/text/random.h"
#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Ten steps of four groups each: one all-correct, one all-wrong, two mixed. All all-correct groups
// have the same prompt.
Report SmallRun(std::int64_t misjudged_sources = 0) {
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
        c.SetRewards(kind == 0 || (kind > 1 && i < kind - 1) ? 1 : 0);
        c.tokens = 100 + i;
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return post_mortem.Finish(misjudged_sources);
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
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kEasySource)], 1);  // first visit
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kTooEasy)], 9);
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kHardSource)], 10);
  EXPECT_EQ(report.near_collapse, 10);  // one of four correct
  EXPECT_EQ(report.with_history, 9);    // the easy prompt from its second visit on
  EXPECT_EQ(report.observed_acr, 1.0);
  EXPECT_EQ(report.sources.at("a&b").collapsed, 20);
  EXPECT_EQ(report.sources.at("c").collapsed, 0);
  EXPECT_EQ(report.worst_prompts[0].prompt_id, "easy <one>");
  EXPECT_EQ(report.worst_prompts[0].record.groups, 10);
}

TEST(ReportTest, AVerifierThatFailsOnKnownAnswersComesBeforeEverythingElse) {
  const Report report = SmallRun(1);
  const std::string text = ReportText(kHead, report);
  EXPECT_THAT(text,
              HasSubstr("\nconclusion: failed controls, the verifier of 1 data source fails"));
  EXPECT_THAT(text, HasSubstr("what to do next:\n  - Mend the verifier before anything else"));
  EXPECT_THAT(ReportJson(kHead, report), HasSubstr("\"misjudged_sources\":1,"));
  EXPECT_THAT(ReportText(kHead, SmallRun()), Not(HasSubstr("failed controls")));
}

// Completions whose prompts all differ form groups of one.
TEST(ReportTest, GroupsOfOneAreNothingToCompareAndHaveNoRate) {
  PostMortem post_mortem(CauseRules{}, nullptr);
  std::vector<GroupFacts> groups(3);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    groups[k].step = 1;
    groups[k].prompt_id = std::to_string(k);
    groups[k].completions.emplace_back().SetRewards(1);
  }
  ASSERT_TRUE(post_mortem.Add(groups).ok());
  const Report report = post_mortem.Finish();
  const std::string text = ReportText(kHead, report);
  EXPECT_THAT(text, HasSubstr("\nconclusion: nothing to compare, none of 3 groups has two "));
  EXPECT_THAT(text, HasSubstr("\nACR - = 0 of 0 groups"));
  EXPECT_THAT(text, Not(HasSubstr("ACR-100")));
  const auto json = nlohmann::json::parse(ReportJson(kHead, report), nullptr, false);
  EXPECT_TRUE(json["summary"]["acr"].is_null());
  EXPECT_TRUE(json["summary"]["steps"][0]["acr"].is_null());
}

TEST(ReportTest, ExpectedAcrFollowsFromTheDifficulty) {
  // The easy prompt is always solved, so that at ten visits little but certainty is left.
  const Report report = SmallRun();
  EXPECT_GT(report.expected.rate, 0.85);
  EXPECT_TRUE(report.expected.contains(report.observed_acr));
}

// A prompt of many other results long ago does not speak about today.
TEST(ReportTest, OnlyVisitsOfTheLastStepsAreCompared) {
  const auto run = [](std::int64_t between) {
    PostMortem post_mortem(CauseRules{}, nullptr);
    for (const std::int64_t step : {std::int64_t{1}, 1 + between}) {
      std::vector<GroupFacts> groups(20);
      for (std::size_t k = 0; k < groups.size(); ++k) {
        groups[k].step = step;
        groups[k].prompt_id = fmt::format("p{}", k);
        for (int i = 0; i < 4; ++i)
          groups[k].completions.emplace_back().deciding_reward = step == 1 ? i % 2 : 1;
      }
      EXPECT_TRUE(post_mortem.Add(groups).ok());
    }
    return post_mortem.Finish();
  };
  const Report near = run(500);
  EXPECT_EQ(near.with_history, 20);
  EXPECT_TRUE(near.excess.significant()) << near.excess.probability;
  EXPECT_THAT(ReportText(kHead, near), HasSubstr("): above what difficulty explains ("));
  EXPECT_THAT(ReportText(kHead, near), HasSubstr("something other than difficulty is the cause"));
  const Report far = run(501);
  EXPECT_EQ(far.with_history, 0);
  EXPECT_THAT(ReportText(kHead, far), HasSubstr("no prompt was seen twice within 500 steps"));
}

TEST(ReportTest, RemediesEqualTheEstimators) {
  const RemedyReport remedies = SmallRun().remedies;
  EXPECT_EQ(remedies.groups, 40);
  EXPECT_EQ(remedies.estimators[0].name, "grpo");
  EXPECT_EQ(remedies.estimators[0].with_advantage, 20);
  EXPECT_EQ(remedies.estimators[0].collapsed_with_advantage, 0);
  for (const EstimatorRemedy& remedy : remedies.estimators) {
    const bool opposite = remedy.name == "avspo, mode opposite";
    EXPECT_TRUE(!opposite || remedy.with_advantage == 40);  // ACR 0.5 is above its gate of 0.3
  }
  EXPECT_EQ(remedies.draws_for_full_batch, 2.0);
  EXPECT_EQ(remedies.skip.visits, 9);
  EXPECT_EQ(remedies.skip.skipped, 9);
  EXPECT_EQ(remedies.skip.rightly, 9);
  ASSERT_EQ(remedies.sizes.size(), 4);  // of 2, 4, 8 and 16
  EXPECT_GT(remedies.sizes[0].expected_acr, remedies.sizes[3].expected_acr);
  EXPECT_EQ(remedies.sizes[1].signal_per_token, 1);
  EXPECT_EQ(remedies.source_sizes.size(), 2);
}

TEST(ReportTest, EstimatorsComeByTheirSignalAgainstTheirNoise) {
  const Report report = SmallRun();
  const std::vector<EstimatorRemedy>& estimators = report.remedies.estimators;
  for (const EstimatorRemedy& remedy : estimators) {
    if (remedy.name == "avspo, mode noise") {
      EXPECT_GT(remedy.collapsed_with_advantage, 0);
      EXPECT_EQ(remedy.push(), 0);
    }
    const bool towards = remedy.name == "avspo, mode opposite" || remedy.name == "ngrpo";
    EXPECT_TRUE(!towards || remedy.push() > 0) << remedy.name;
  }
  for (std::size_t i = 2; i < estimators.size(); ++i)
    EXPECT_GE(estimators[i - 1].signal_per_token, estimators[i].signal_per_token);
  EXPECT_EQ(estimators[0].signal_per_token, 1);
  EXPECT_FALSE(estimators.back().signal_per_token) << estimators.back().name;
  const std::string text = ReportText(kHead, report);
  EXPECT_THAT(text, HasSubstr("constant ones are pushed nowhere: noise"));
  EXPECT_THAT(text, HasSubstr("run.algorithm.advantage=avspo run.algorithm.avspo.mode=opposite"));
  EXPECT_THAT(text, HasSubstr("verl: actor_rollout_ref.rollout.n=8; TRL: num_generations=8"));
}

TEST(ReportTest, TheTextHasCausesStepsAndAdvice) {
  const std::string text = ReportText(kHead, SmallRun());
  EXPECT_THAT(text, HasSubstr("note: a remark"));
  EXPECT_THAT(text, HasSubstr("\nconclusion: nothing broken, 50 % (35 to 65) of the last 40 groups "
                              "have no signal\n40 groups, "));
  EXPECT_THAT(text,
              HasSubstr("ACR 0.500 = 20 of 40 groups (all-correct 10, all-wrong 10, other 0)"));
  EXPECT_THAT(text, HasSubstr("too easy                  9   45.0 %"));
  EXPECT_THAT(text, HasSubstr("prompts seen in the 500 steps before: observed 1.000, expected "));
  EXPECT_THAT(text, HasSubstr("; 9 groups): within chance ("));
  EXPECT_THAT(text,
              HasSubstr("what to do next:\n  - hard source (10 groups, 25.0 % of all; 25 % (14 to "
                        "40) of the last 40, mostly of source 'a&b'): begin "));
  EXPECT_THAT(text, HasSubstr("100 % (84 to 100) of the last 20 groups without a signal, mostly "
                              "hard source; 100.0 % of all 20\n"));
}

TEST(ReportTest, ASourceWithoutACorrectCompletionAsksForAnswersKnownToBeRight) {
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (std::int64_t step = 1; step <= 40; ++step) {
    std::vector<GroupFacts> groups(2);
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = fmt::format("{}-{}", k, step);
      groups[k].source = k == 0 ? "silent" : "works";
      for (int i = 0; i < 4; ++i) {
        CompletionFacts& c = groups[k].completions.emplace_back();
        c.SetRewards(k == 1 && i < 2 ? 1 : 0);
      }
    }
    ASSERT_TRUE(post_mortem.Add(groups).ok());
  }
  const Report report = post_mortem.Finish();
  EXPECT_EQ(report.never_right, (std::map<std::string, std::int64_t>{{"silent", 160}}));
  EXPECT_THAT(NextSteps(report)[0],
              HasSubstr("No completion of source 'silent' was ever right, of 160: its p is below "
                        "1.9 % (3 / 160)"));
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kNeverRight)], 8);
  EXPECT_EQ(report.all.causes[static_cast<std::size_t>(Cause::kVerifierConstant)], 0);
}

TEST(ReportTest, TheSummaryIsOneObjectOnOneLine) {
  const std::string line = ReportJson(kHead, SmallRun());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(json.contains("summary"));
  EXPECT_EQ(json["summary"]["acr"], 0.5);
  EXPECT_EQ(json["summary"]["causes"]["hard source"], 10);
  EXPECT_EQ(json["summary"]["steps"].size(), 10);
  EXPECT_EQ(json["summary"]["conclusion"]["name"], "nothing broken");
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
  EXPECT_THAT(html, HasSubstr("<p><b>nothing broken</b>: "));
}

TEST(ReportTest, AGroupWithoutASignalIsOneObject) {
  const auto json = nlohmann::json::parse(CollapsedGroupJson({3,
                                                              "p",
                                                              "s",
                                                              "",
                                                              "1.jsonl:4",
                                                              CollapseClass::kAllCorrect,
                                                              {Cause::kFloatNoise, "because"}}),
                                          nullptr, false);
  EXPECT_EQ(json["cause"], "float noise");
  EXPECT_EQ(json["collapse"], "all_correct");
  EXPECT_EQ(json["step"], 3);
  EXPECT_FALSE(json.contains("sampler"));
}

}  // namespace
}  // namespace buttress
