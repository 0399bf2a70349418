#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/experience/group_offsets.h"
#include "tests/unit/rl/advantage/batch.h"

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
    reward = kind == 0   ? constant
             : kind == 1 ? random.Uniform()
                         : static_cast<double>(random.Below(2));
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
  for (const StdKind std_kind : {StdKind::kSample, StdKind::kPopulation, StdKind::kNone}) {
    AlgorithmConfig options;
    options.std = std_kind;
    all.push_back(options);
  }
  for (const Estimator estimator : {Estimator::kDrGrpo, Estimator::kRloo})
    all.emplace_back().advantage = estimator;
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

TEST(GroupBaselineProperty, ScalingRewardsDoesNotChangeAdvantagesDividedByTheStd) {
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
  // 0.7 and 0.9 cannot be written in binary: sums of eight or sixteen float32 of them show a
  // standard deviation of 6e-8, and with eps 1e-9 an advantage of 0.92.
  RandomStream random({20260101, 14});
  for (const std::size_t size : {2U, 7U, 8U, 16U, 64U}) {
    for (const double reward :
         {0.7, 0.9, 0.1, 1.0 / 3.0, 1e9 + 0.1, random.Uniform(), static_cast<double>(0.7F)}) {
      AlgorithmConfig options;
      options.eps = 0;
      const auto advantages =
          Advantages({std::vector<std::optional<double>>(size, reward)}, options);
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
      for (std::size_t i = 0; i < group.size(); ++i)
        EXPECT_EQ(all[i], group[i] ? alone[next++] : 0.0);
    }
  }
}

TEST(GroupBaselineProperty, GroupsDoNotDependOnOneAnother) {
  RandomStream random({20260101, 16});
  std::vector<AlgorithmConfig> all = GroupBaselines();
  for (const Estimator estimator :
       {Estimator::kOpo, Estimator::kPassK, Estimator::kPassAtK, Estimator::kNgrpo,
        Estimator::kRlZvp, Estimator::kReinforceRej, Estimator::kRaft})
    all.emplace_back().advantage = estimator;
  for (int trial = 0; trial < kTrials / 10; ++trial) {
    const TestGroups groups = RandomGroups(random);
    for (const AlgorithmConfig& options : all) {
      std::vector<double> alone;
      for (const auto& group : groups) {
        const auto advantages = Advantages({group}, options);
        alone.insert(alone.end(), advantages.begin(), advantages.end());
      }
      EXPECT_EQ(Advantages(groups, options), alone);
    }
  }
}

// Settings that make the strength of a mode 0, and the estimator that it then equals.
struct Silenced {
  AlgorithmConfig options;
  AlgorithmConfig base;
};

std::vector<Silenced> SilencedModes() {
  std::vector<Silenced> all;
  for (const AvspoMode mode :
       {AvspoMode::kNoise, AvspoMode::kOpposite, AvspoMode::kPrior, AvspoMode::kLadder}) {
    Silenced silenced;
    silenced.options.advantage = Estimator::kAvspo;
    silenced.options.avspo.mode = mode;
    if (mode == AvspoMode::kNoise) silenced.base.eps = 1e-8;
    if (mode == AvspoMode::kLadder) {
      silenced.options.avspo.ladder.threshold = silenced.options.avspo.ladder.threshold_min = 0.0;
      silenced.options.avspo.ladder.strength = 0.0;
      all.push_back(silenced);
      continue;
    }
    silenced.options.avspo.acr_threshold = 1.0;  // never exceeded
    all.push_back(silenced);
    silenced.options.avspo.acr_threshold = 0.0;
    silenced.options.avspo.slope = 0.0;
    all.push_back(silenced);
  }
  Silenced prior = all.front();
  prior.base = {};
  prior.options.avspo.mode = AvspoMode::kPrior;
  prior.options.avspo.acr_threshold = 0.0;
  prior.options.avspo.prior.strength_correct = prior.options.avspo.prior.strength_wrong = 0.0;
  all.push_back(prior);
  return all;
}

TEST(AvspoProperty, WithStrengthZeroItIsBitwiseTheBaseEstimator) {
  RandomStream random({20260101, 17});
  for (int trial = 0; trial < kTrials / 2; ++trial) {
    const TestGroups groups = RandomGroups(random);
    TestBatch batch(groups);
    batch.set_history(std::vector<PromptHistory>(groups.size(), {1, 3}));
    for (const Silenced& silenced : SilencedModes()) {
      const auto out = ComputeAdvantages(batch.input(), silenced.options);
      const auto base = ComputeAdvantages(batch.input(), silenced.base);
      ASSERT_TRUE(out.ok() && base.ok());
      EXPECT_EQ(out->advantages, base->advantages) << ChoiceName(silenced.options.avspo.mode);
    }
  }
}

TEST(AvspoProperty, OppositeChangesAllCorrectAndAllWrongGroupsOnly) {
  RandomStream random({20260101, 18});
  for (int trial = 0; trial < kTrials / 2; ++trial) {
    const TestGroups groups = RandomGroups(random);
    const TestBatch batch(groups);
    const AdvantageInput input = batch.input();
    const auto base = Advantages(groups, {});
    AlgorithmConfig options;
    options.advantage = Estimator::kAvspo;
    options.avspo.mode = AvspoMode::kOpposite;
    options.avspo.acr_threshold = 0.0;
    const auto out = ComputeAdvantages(input, options);
    ASSERT_TRUE(out.ok());
    for (std::size_t k = 0; k < groups.size(); ++k) {
      const CollapseClass collapse = input.classes[k];
      const double sign = collapse == CollapseClass::kAllCorrect ? 1.0
                          : collapse == CollapseClass::kAllWrong ? -1.0
                                                                 : 0.0;
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

// Mode noise apart: its sign is that of the noise.
std::vector<AlgorithmConfig> OpenModes() {
  std::vector<AlgorithmConfig> all;
  for (const StdKind std_kind : {StdKind::kSample, StdKind::kPopulation, StdKind::kNone}) {
    AlgorithmConfig options;
    options.advantage = Estimator::kAvspo;
    options.std = std_kind;
    options.avspo.acr_threshold = 0.0;
    options.avspo.ladder.threshold = options.avspo.ladder.threshold_min = 0.0;
    for (const AvspoMode mode : {AvspoMode::kOpposite, AvspoMode::kLadder, AvspoMode::kPrior}) {
      options.avspo.mode = mode;
      for (const bool symmetric : {false, true}) {
        options.avspo.ladder.symmetric = symmetric;
        if (mode == AvspoMode::kLadder || !symmetric) all.push_back(options);
      }
    }
  }
  return all;
}

// A bonus for all, bonuses and penalties for some, and a length term.
double RandomShaping(double bonus, RandomStream& random) {
  const double some = random.Below(2) == 0 ? 0.2 : 0.0;
  const double overlong = random.Below(4) == 0 ? -random.Uniform() : 0.0;
  return bonus + some + overlong + 0.1 * random.Uniform();
}

TEST(AvspoProperty, WhateverTheShapingWrongGroupsArePushedDownAndCorrectOnesUp) {
  RandomStream random({20260101, 19});
  for (int trial = 0; trial < kTrials; ++trial) {
    const TestGroups groups = {TestGroups::value_type(2 + random.Below(15), 0.0),
                               TestGroups::value_type(2 + random.Below(15), 1.0)};
    TestBatch batch(groups);
    const auto correct = static_cast<std::int64_t>(random.Below(9));
    PromptHistory history(correct, random.Below(4) == 0 ? 0 : 8);
    if (history.scored == 0) history = {};  // never seen
    batch.set_history(std::vector<PromptHistory>(2, history));
    batch.set_acr_ema(1);
    AdvantageInput input = batch.input();
    std::vector<double> shaped(input.rewards.begin(), input.rewards.end());
    const double bonus = 2 * random.Uniform() - 1;
    for (double& reward : shaped) reward += RandomShaping(bonus, random);
    input.rewards = shaped;
    for (const AlgorithmConfig& options : OpenModes()) {
      const auto out = ComputeAdvantages(input, options);
      ASSERT_TRUE(out.ok()) << out.status().message();
      const auto sum = [&](std::size_t k) {
        const auto of_group = GroupRows(std::span(out->advantages), input.group_offsets, k);
        return std::accumulate(of_group.begin(), of_group.end(), 0.0);
      };
      EXPECT_LE(sum(0), 1e-9) << ChoiceName(options.avspo.mode);
      EXPECT_GE(sum(1), -1e-9) << ChoiceName(options.avspo.mode);
    }
  }
}

TEST(AvspoProperty, NoiseInConstantGroupsHasZeroSumAndUnitVarianceAndIgnoresItsScale) {
  TestGroups groups(50, std::vector<std::optional<double>>(8, 1.0));
  groups.resize(100, std::vector<std::optional<double>>(8, 0.0));
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kNoise;
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

// A group of 1 - 200 outcomes with some correct ones, in random places.
std::vector<std::optional<double>> RandomOutcomes(RandomStream& random) {
  const double rate = random.Uniform();
  std::vector<std::optional<double>> group(1 + random.Below(200));
  for (auto& reward : group) reward = random.Uniform() < rate ? 1.0 : 0.0;
  return group;
}

TEST(PassAtKProperty, CorrectOnesRiseAndWrongOnesFallByTheSameSum) {
  RandomStream random({20260101, 22});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomOutcomes(random);
    const auto correct = std::ranges::count(group, 1.0);
    const auto wrong = std::ssize(group) - correct;
    AlgorithmConfig options;
    options.advantage = Estimator::kPassAtK;
    options.pass_at_k.k = 1 + static_cast<std::int64_t>(random.Below(group.size()));
    const auto advantages = Advantages({group}, options);
    const bool silent = correct == 0 || wrong < options.pass_at_k.k;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const double sign = silent ? 0.0 : *group[i] == 1.0 ? 1.0 : -1.0;
      EXPECT_EQ(std::copysign(1.0, advantages[i]) * (advantages[i] != 0), sign);
    }
    EXPECT_NEAR(std::accumulate(advantages.begin(), advantages.end(), 0.0), 0.0, 1e-9);
  }
}

TEST(PassAtKProperty, OfOneIsGrpoWithThePopulationsDeviation) {
  RandomStream random({20260101, 23});
  AlgorithmConfig options, grpo;
  options.advantage = Estimator::kPassAtK;
  options.pass_at_k.k = 1;
  grpo.std = StdKind::kPopulation;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<std::optional<double>> group = RandomOutcomes(random);
    const auto ours = Advantages({group}, options);
    const auto theirs = Advantages({group}, grpo);
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-10);
  }
}

TEST(EstimatorProperty, AConstantGroupGetsWhatTheTableSays) {
  RandomStream random({20260101, 20});
  for (int trial = 0; trial < kTrials / 4; ++trial) {
    TestGroups groups = RandomGroups(random);
    const std::size_t k = random.Below(groups.size());
    for (auto& reward : groups[k]) reward = 0.7;
    TestBatch batch(groups);
    const AdvantageInput input = batch.input();
    for (const EstimatorInfo& info : Estimators()) {
      if (info.on_constant_group != "exactly 0") continue;
      AlgorithmConfig options;
      options.advantage = info.estimator;
      const auto out = ComputeAdvantages(input, options);
      ASSERT_TRUE(out.ok()) << out.status().message();
      for (const double advantage :
           GroupRows(std::span<const double>(out->advantages), input.group_offsets, k)) {
        EXPECT_EQ(advantage, 0.0) << info.name();
      }
    }
  }
}

// Whether an estimator reads rewards and nothing else: TestBatch gives partial credit its outcome
// by position. A tie at the top of pass_k goes to either completion.
bool ReadsRewardsAlone(Estimator estimator) {
  static constexpr Estimator kOthers[] = {
      Estimator::kPassK, Estimator::kPassAtK, Estimator::kRlZvp, Estimator::kWReinforce,
      Estimator::kAGrae, Estimator::kAvspo,   Estimator::kGdpo};
  return std::ranges::find(kOthers, estimator) == std::end(kOthers);
}

TEST(EstimatorProperty, ReversingABatchReversesItsAdvantages) {
  RandomStream random({20260101, 21});
  for (int trial = 0; trial < kTrials / 4; ++trial) {
    const TestGroups groups = RandomGroups(random);
    TestGroups reversed;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group)
      reversed.emplace_back(group->rbegin(), group->rend());
    for (const EstimatorInfo& info : Estimators()) {
      if (!ReadsRewardsAlone(info.estimator)) continue;
      AlgorithmConfig options;
      options.advantage = info.estimator;
      const auto a = Advantages(groups, options);
      const auto b = Advantages(reversed, options);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(a[i], b[b.size() - 1 - i], 1e-9) << info.name();
    }
  }
}

}  // namespace
}  // namespace buttress
