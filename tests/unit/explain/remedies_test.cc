#include "lib/explain/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace buttress {
namespace {

GroupFacts GroupOf(const std::string& source, std::vector<double> rewards) {
  GroupFacts group;
  group.source = source;
  for (const double reward : rewards) {
    CompletionFacts& completion = group.completions.emplace_back();
    completion.SetRewards(reward);
    completion.outcome = reward == 1 ? Outcome::kCorrect : Outcome::kWrong;
  }
  return group;
}

TEST(RemediesTest, GatesAreThoseOfTheSourcesAsInARun) {
  std::vector<GroupFacts> groups(8, GroupOf("easy", {1, 1}));
  groups.insert(groups.end(), 8, GroupOf("hard", {1, 0}));
  groups.push_back(GroupOf("hard", {0, 0}));
  const auto repaired = [&] {
    Remedies remedies;
    const std::vector<PromptHistory> history(groups.size());
    EXPECT_TRUE(remedies.Add(1, groups, history, std::vector<int>(groups.size(), -1)).ok());
    const RemedyReport report = remedies.Finish(2, {});
    return std::ranges::find(report.estimators, "avspo, mode opposite", &EstimatorRemedy::name)
        ->virtual_groups;
  };
  EXPECT_EQ(repaired(), 8);  // the rate of "hard" is 1/9
  for (GroupFacts& group : groups) group.source = "default";
  EXPECT_EQ(repaired(), 9);  // that of all is 9/17
}

}  // namespace
}  // namespace buttress
