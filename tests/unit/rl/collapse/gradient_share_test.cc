#include <gtest/gtest.h>

#include <vector>

#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

using enum CollapseClass;

// Four groups of two completions; every token weighs 1/10.
struct Step {
  std::vector<double> advantages = {1, -1, 0.5, 0.5, 2, -2, -0.25, -0.25};
  std::vector<double> rewards = {1, 0, 1, 1, 1, 0.5, 0, 0};
  std::vector<double> weights = std::vector<double>(8, 0.1);
  std::vector<std::int32_t> lengths = {3, 1, 2, 2, 1, 1, 4, 4};
  std::vector<std::int32_t> offsets = {0, 2, 4, 6, 8};
  std::vector<CollapseClass> classes = {kMixed, kAllCorrect, kAllCorrect, kAllWrong};
  std::vector<VirtualDecision> decisions = {{}, {true, 1, 1}, {}, {}};

  GradientMass Mass() const {
    return PolicyGradientMass(advantages, rewards, weights, lengths, offsets, classes, decisions);
  }
};

TEST(GradientShareTest, MassIsAttributedToItsSource) {
  const GradientMass mass = Step().Mass();
  EXPECT_DOUBLE_EQ(mass.virtual_samples, 0.2);  // 4 tokens * .5 * .1
  EXPECT_DOUBLE_EQ(mass.shaping,
                   0.4);  // 2 tokens * 2 * .1: equal raw rewards, different shaped ones
  EXPECT_DOUBLE_EQ(mass.estimator, 0.2);  // 8 tokens * .25 * .1
  EXPECT_DOUBLE_EQ(mass.all, 1.2);        // and 4 tokens * 1 * .1 of the mixed group
  EXPECT_DOUBLE_EQ(mass.share(mass.collapsed()), 0.8 / 1.2);
}

TEST(GradientShareTest, GroupsWithoutAnAdvantageOrAClassHaveNone) {
  Step step;
  step.advantages = {1, -1, 0, 0, 0, 0, 1, 1};
  step.classes[3] = kUnscorable;
  const GradientMass mass = step.Mass();
  EXPECT_EQ(mass.collapsed(), 0);
  EXPECT_DOUBLE_EQ(mass.all, 1.2);
  EXPECT_EQ(GradientMass().share(0), 0);
}

TEST(GradientShareTest, CompletionsWithoutTrainedTokensDoNotMakeAGroupShaped) {
  Step step;
  step.lengths = {3, 1, 2, 2, 0, 1, 4, 4};
  const GradientMass mass = step.Mass();
  EXPECT_EQ(mass.shaping, 0);
  EXPECT_DOUBLE_EQ(mass.estimator, 0.4);
}

}  // namespace
}  // namespace buttress
