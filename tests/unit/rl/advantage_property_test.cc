#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/unit/rl/batch.h"

namespace buttress {
namespace {

constexpr int kTrials = 2000;

// A group of 2 - 16 rewards: binary, partial credit, or constant; about one in ten unscorable.
std::vector<std::optional<double>> RandomGroup(RandomStream& random) {
  const std::uint64_t kind = random.Below(4);
  const double constant = random.Uniform();
  std::vector<std::optional<double>> group(2 + random.Below(15));
  for (auto& reward : group) {
    if (random.Below(10) == 0) continue;
    reward = kind == 0 ? constant : kind == 1 ? random.Uniform() : static_cast<double>(random.Below(2));
  }
  return group;
}

TestGroups RandomGroups(RandomStream& random) {
  TestGroups groups(1 + random.Below(12));
  for (auto& group : groups) group = RandomGroup(random);
  return groups;
}

std::vector<double> Advantages(const TestGroups& groups, const AlgorithmConfig& options) {
  const TestBatch batch(groups);
  const auto out = ComputeAdvantages(batch.input(), options);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? out->advantages : std::vector<double>();
}

std::vector<AlgorithmConfig> GroupBaselines() {
  std::vector<AlgorithmConfig> all;
  for (const char* std_kind : {"sample", "population", "none"}) {
    AlgorithmConfig options;
    options.std = std_kind;
    all.push_back(options);
  }
  all.emplace_back().advantage = "dr_grpo";
  return all;
}

TEST(GroupBaselineProperty, AdvantagesOfAGroupSumToZero) {
  RandomStream random({20260101, 10});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomGroup(random);
    for (const AlgorithmConfig& options : GroupBaselines()) {
      const auto advantages = Advantages({group}, options);
      EXPECT_NEAR(std::accumulate(advantages.begin(), advantages.end(), 0.0), 0.0, 1e-9);
    }
  }
}

TEST(GroupBaselineProperty, AddingAConstantToAllRewardsChangesNothing) {
  RandomStream random({20260101, 11});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomGroup(random);
    std::vector<std::optional<double>> shifted = group;
    for (auto& reward : shifted) {
      if (reward) *reward += 0.5;
    }
    for (const AlgorithmConfig& options : GroupBaselines()) {
      const auto a = Advantages({group}, options);
      const auto b = Advantages({shifted}, options);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
    }
  }
}

TEST(GroupBaselineProperty, ScalingRewardsScalesNothingThatIsDividedByTheirStd) {
  RandomStream random({20260101, 12});
  AlgorithmConfig options;
  options.eps = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomGroup(random);
    std::vector<std::optional<double>> scaled = group;
    for (auto& reward : scaled) {
      if (reward) *reward *= 4.0;  // a power of two: exact
    }
    EXPECT_EQ(Advantages({group}, options), Advantages({scaled}, options));
  }
}

TEST(GroupBaselineProperty, PermutingAGroupPermutesItsAdvantages) {
  RandomStream random({20260101, 13});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomGroup(random);
    const std::vector<std::optional<double>> reversed(group.rbegin(), group.rend());
    for (const AlgorithmConfig& options : GroupBaselines()) {
      const auto a = Advantages({group}, options);
      const auto b = Advantages({reversed}, options);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[a.size() - 1 - i], 1e-9);
    }
  }
}

TEST(GroupBaselineProperty, EqualRewardsGiveExactlyZeroWhateverTheyAre) {
  // 0.7 and 0.9 cannot be written in binary: sums of eight or sixteen float32 of them show a standard deviation of 6e-8, and with eps
  // 1e-9 an advantage of 0.92.
  RandomStream random({20260101, 14});
  for (const std::size_t size : {2U, 7U, 8U, 16U, 64U}) {
    for (const double reward : {0.7, 0.9, 0.1, 1.0 / 3.0, 1e9 + 0.1, random.Uniform(), static_cast<double>(0.7F)}) {
      AlgorithmConfig options;
      options.eps = 0;
      const auto advantages = Advantages({std::vector<std::optional<double>>(size, reward)}, options);
      EXPECT_EQ(advantages, std::vector<double>(size, 0.0)) << size << " x " << reward;
    }
  }
}

TEST(GroupBaselineProperty, UnscorableCompletionsAreZeroAndChangeNothing) {
  RandomStream random({20260101, 15});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomGroup(random);
    std::vector<std::optional<double>> scorable;
    for (const auto& reward : group) {
      if (reward) scorable.push_back(reward);
    }
    for (const AlgorithmConfig& options : GroupBaselines()) {
      const auto all = Advantages({group}, options);
      const auto alone = Advantages({scorable}, options);
      std::size_t next = 0;
      for (std::size_t i = 0; i < group.size(); ++i) EXPECT_EQ(all[i], group[i] ? alone[next++] : 0.0);
    }
  }
}

TEST(GroupBaselineProperty, GroupsDoNotDependOnOneAnother) {
  RandomStream random({20260101, 16});
  for (int trial = 0; trial < kTrials / 10; ++trial) {
    const TestGroups groups = RandomGroups(random);
    for (const AlgorithmConfig& options : GroupBaselines()) {
      std::vector<double> alone;
      for (const auto& group : groups) {
        const auto advantages = Advantages({group}, options);
        alone.insert(alone.end(), advantages.begin(), advantages.end());
      }
      EXPECT_EQ(Advantages(groups, options), alone);
    }
  }
}

// The base of each mode: what it gives with weight 0.
AlgorithmConfig BaseOf(const std::string& mode) {
  AlgorithmConfig base;
  if (mode == "noise") base.eps = 1e-8;
  return base;
}

TEST(AvspoProperty, WithWeightZeroItIsBitwiseTheBaseEstimator) {
  RandomStream random({20260101, 17});
  for (int trial = 0; trial < kTrials / 2; ++trial) {
    const TestGroups groups = RandomGroups(random);
    for (const char* mode : {"noise", "opposite"}) {
      const auto base = Advantages(groups, BaseOf(mode));
      AlgorithmConfig options;
      options.advantage = "avspo";
      options.avspo.mode = mode;
      options.avspo.acr_threshold = 1.0;  // never exceeded
      EXPECT_EQ(Advantages(groups, options), base) << mode;
      options.avspo.acr_threshold = 0.0;
      options.avspo.slope = 0.0;
      EXPECT_EQ(Advantages(groups, options), base) << mode;
    }
  }
}

TEST(AvspoProperty, OppositeTouchesNothingButAllCorrectAndAllWrongGroups) {
  RandomStream random({20260101, 18});
  for (int trial = 0; trial < kTrials / 2; ++trial) {
    const TestGroups groups = RandomGroups(random);
    const TestBatch batch(groups);
    const AdvantageInput input = batch.input();
    const auto base = Advantages(groups, {});
    AlgorithmConfig options;
    options.advantage = "avspo";
    options.avspo.acr_threshold = 0.0;
    const auto out = ComputeAdvantages(input, options);
    ASSERT_TRUE(out.ok());
    for (std::size_t k = 0; k < groups.size(); ++k) {
      const CollapseClass collapse = out->collapse[k];
      const double sign = collapse == CollapseClass::kAllCorrect ? 1.0 : collapse == CollapseClass::kAllWrong ? -1.0 : 0.0;
      const auto begin = static_cast<std::size_t>(input.group_offsets[k]);
      for (std::size_t i = 0; i < groups[k].size(); ++i) {
        const double advantage = out->advantages[begin + i];
        if (sign == 0.0) {
          EXPECT_EQ(advantage, base[begin + i]);
        } else if (groups[k][i]) {
          EXPECT_GT(advantage * sign, 0.0);
        } else {
          EXPECT_EQ(advantage, 0.0);
        }
      }
    }
  }
}

TEST(AvspoProperty, NoiseInConstantGroupsHasZeroSumAndUnitVarianceAndIgnoresItsScale) {
  TestGroups groups(50, std::vector<std::optional<double>>(8, 1.0));
  groups.resize(100, std::vector<std::optional<double>>(8, 0.0));
  AlgorithmConfig options;
  options.advantage = "avspo";
  options.avspo.mode = "noise";
  const auto advantages = Advantages(groups, options);
  options.avspo.noise_std = 0.2;
  const auto doubled = Advantages(groups, options);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 8 * k; i < 8 * k + 8; ++i) {
      sum += advantages[i];
      squares += advantages[i] * advantages[i];
      EXPECT_NEAR(advantages[i], doubled[i], 1e-6);
    }
    EXPECT_NEAR(sum, 0.0, 1e-9);
    EXPECT_NEAR(squares / 7.0, 1.0, 1e-5);
  }
}

}  // namespace
}  // namespace buttress
