#include "lib/explain/group_size.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/text/random.h"
#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

// A source whose prompts have the given rates, equally often, as its last 1,024 groups of 8 show.
Difficulty DifficultyOf(const std::vector<double>& rates) {
  RandomStream random({11, 1});
  std::vector<GroupTrials> groups(1024);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].own.scored = 8;
    for (int i = 0; i < 8; ++i)
      groups[g].own.correct += random.Uniform() < rates[g % rates.size()] ? 1 : 0;
  }
  return Difficulty::Fit(groups);
}

double TrueRatio(const std::vector<double>& rates, int n) {
  double signal = 0, mixed = 0;
  for (const double p : rates) {
    for (int k = 1; k < n; ++k) {
      const double chance =
          std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                   k * std::log(p) + (n - k) * std::log1p(-p));
      signal += chance * std::sqrt(k * (n - k)) / n;
      mixed += chance;
    }
  }
  return signal * signal / mixed / static_cast<double>(rates.size());
}

TEST(GroupSizeTest, TheRatioIsThatOfTheTruth) {
  fmt::print("| prompts | n = 2 | 4 | 8 | 16 | 32 |\n|---|---|---|---|---|---|\n");

  struct Mix {
    const char* name;
    std::vector<double> rates;
  };

  for (const auto& [name, rates] : std::initializer_list<Mix>{
           {"all at 0.5", {0.5}},
           {"all at 0.1 or 0.9", {0.1, 0.9}},
           {"all at 0.02", {0.02}},
           {"half at 0.5, half at 0.0005", {0.5, 0.0005}},
           {"a fifth each at 0.02, 0.2, 0.5, 0.8, 0.98", {0.02, 0.2, 0.5, 0.8, 0.98}}}) {
    const std::vector<SourceDifficulty> source = {{DifficultyOf(rates), 1}};
    std::string row = fmt::format("| {} |", name);
    for (const int n : {2, 4, 8, 16, 32}) {
      const double fitted = SignalPerToken(source, n) / SignalPerToken(source, 8);
      const double truth = TrueRatio(rates, n) / TrueRatio(rates, 8);
      EXPECT_NEAR(fitted / truth, 1, 0.08) << name << ", groups of " << n;
      row += fmt::format(" {:.2f} |", truth);
    }
    fmt::print("{}\n", row);
  }
}

TEST(GroupSizeTest, AnEstimatorThatPushesMoreIsNotBetterForIt) {
  const auto ratio = [](const std::vector<SourceDifficulty>& sources, AvspoMode mode) {
    AlgorithmConfig options;
    options.advantage = Estimator::kAvspo;
    options.avspo.mode = mode;
    return *RelativeSignal(sources, 8, options);
  };
  const SourceDifficulty even{DifficultyOf({0.5}), 0.5}, rare{DifficultyOf({0.005}), 0.5};
  EXPECT_NEAR(ratio({even}, AvspoMode::kOpposite), 1, 0.02);
  EXPECT_NEAR(ratio({rare}, AvspoMode::kPrior), 1, 0.02);
  EXPECT_LT(ratio({rare}, AvspoMode::kOpposite), 0.5);
  EXPECT_LT(ratio({even, rare}, AvspoMode::kOpposite), ratio({even, rare}, AvspoMode::kPrior));
  AlgorithmConfig options;
  EXPECT_EQ(RelativeSignal({even, rare}, 8, options), 1);
  EXPECT_EQ(RelativeSignal({}, 8, options), std::nullopt);
  options.std = StdKind::kPopulation;  // another length of the step
  EXPECT_NEAR(*RelativeSignal({even, rare}, 8, options), 1, 1e-6);
  options.advantage = Estimator::kReinforcePp;
  EXPECT_EQ(RelativeSignal({even}, 8, options), std::nullopt);
}

TEST(GroupSizeTest, SourcesThatGroupsCannotHelpKeepTheirCollapse) {
  // Two sources at 0.5 and 0.0005: the rate at four times the group is still above 0.48.
  const std::vector<SourceDifficulty> sources = {{DifficultyOf({0.5}), 0.5},
                                                 {DifficultyOf({0.0005}), 0.5}};
  const std::vector<SizeRemedy> sizes = CompareSizes(sources, 8);
  ASSERT_EQ(sizes.size(), 4);
  EXPECT_NEAR(sizes[1].expected_acr, 0.5 * (1 + std::pow(0.5, 7)), 0.02);
  EXPECT_NEAR(sizes[3].expected_acr, 0.5, 0.02);
  EXPECT_THAT(AdviseSize(sizes, 8), HasSubstr("Another group size does not pay"));
}

TEST(GroupSizeTest, TheAdviceIsTheSizeThatGains) {
  EXPECT_EQ(AdviseSize({{4, 0.6, 0.8}, {8, 0.5, 1}, {16, 0.4, 1.24}, {32, 0.3, 1.2}}, 8),
            "By the difficulty of the recent prompts, groups of 16 have 1.24 times the signal to "
            "noise per token of groups of 8, at ACR 0.40 instead of 0.50.");
  EXPECT_THAT(AdviseSize(CompareSizes({{DifficultyOf({0.5}), 1}}, 2), 2),
              HasSubstr("groups of 8 have 1.7"));
  EXPECT_EQ(AdviseSize({}, 8), "");
  EXPECT_TRUE(CompareSizes({}, 8).empty());
}

// Prompts become easy: the last groups speak, not the run.
TEST(GroupSizeTest, ARunIsJudgedByItsLastGroups) {
  RandomStream random({5, 1});
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (int step = 1; step <= 80; ++step) {
    std::vector<GroupFacts> groups(32);
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = fmt::format("{}-{}", step, k);
      const double rate = step <= 40 ? 0.3 : 0.97;
      for (int i = 0; i < 8; ++i)
        groups[k].completions.emplace_back().SetRewards(random.Uniform() < rate ? 1 : 0);
    }
    ASSERT_TRUE(post_mortem.Add(groups).ok());
  }
  const std::vector<SizeRemedy> sizes = post_mortem.Finish().remedies.sizes;
  EXPECT_NEAR(sizes[1].expected_acr, std::pow(0.97, 8), 0.03);
  EXPECT_NEAR(sizes[2].expected_acr, std::pow(0.97, 16), 0.04);
}

}  // namespace
}  // namespace buttress
