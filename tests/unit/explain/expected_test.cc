// What the expected rate of collapse can say, and where it says nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/text/random.h"
#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// 100 prompts that return at every second of 60 steps, half of them at 0.1, half at 0.6. From step
// `killed_from` on a fifth of the groups, at random, has rewards of 0. With `moves`, the rates of a
// step have nothing to do with those before.
Report ReportOf(int killed_from, bool moves) {
  RandomStream random({3, 1});
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (int step = 1; step <= 60; ++step) {
    std::vector<GroupFacts> groups(50);
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = std::to_string(2 * k + static_cast<std::size_t>(step % 2));
      groups[k].source = "s";
      const bool hard = moves ? random.Uniform() < 0.5 : k % 2 == 0;
      const bool dead = random.Uniform() < 0.2 && step >= killed_from;
      for (int i = 0; i < 8; ++i) {
        const bool right = random.Uniform() < (hard ? 0.1 : 0.6);
        groups[k].completions.emplace_back().SetRewards(right && !dead ? 1 : 0);
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return post_mortem.Finish();
}

TEST(ExpectedTest, VisitsThatPredictGiveInformation) {
  const Report report = ReportOf(1000, false);
  EXPECT_TRUE(report.expected_informs);
  EXPECT_THAT(DescribeExpected(report), HasSubstr(" groups): "));
  EXPECT_FALSE(report.excess.significant()) << DescribeExpected(report);
}

TEST(ExpectedTest, VisitsThatPredictNothingGiveNoInformation) {
  for (const int killed_from : {1, 1000}) {
    const Report report = ReportOf(killed_from, true);
    EXPECT_FALSE(report.expected_informs);
    EXPECT_NEAR(report.observed_acr, report.expected.rate, 0.05) << "it follows what it judges";
    EXPECT_THAT(DescribeExpected(report), HasSubstr(": no information, since "));
    EXPECT_THAT(NextSteps(report), Not(Contains(HasSubstr("something other than difficulty"))));
  }
}

TEST(ExpectedTest, AGainIsSignificantIfErrorsAreSmaller) {
  PairedGain gain;
  EXPECT_FALSE(gain.significant());
  for (int i = 0; i < 100; ++i) gain.Add(i % 2, 0.5, i % 2 == 0 ? 0.4 : 0.6);
  EXPECT_TRUE(gain.significant());
  for (int i = 0; i < 100; ++i) gain.Add(i % 2, 0.5, i % 2 == 0 ? 0.6 : 0.4);
  EXPECT_FALSE(gain.significant());
}

TEST(ExpectedTest, WithoutASecondVisitItSaysSo) {
  PostMortem post_mortem(CauseRules{}, nullptr);
  GroupFacts group;
  group.step = 1;
  group.prompt_id = "p";
  for (int i = 0; i < 4; ++i) group.completions.emplace_back().SetRewards(1);
  ASSERT_TRUE(post_mortem.Add({group}).ok());
  EXPECT_THAT(DescribeExpected(post_mortem.Finish()), HasSubstr("no prompt was seen twice"));
}

}  // namespace
}  // namespace buttress
