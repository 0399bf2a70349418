#include "lib/rl/eval/group_rates.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

SampledPrompt Binary(std::int64_t correct, std::int64_t wrong) {
  SampledPrompt prompt;
  if (wrong > 0) prompt.levels.push_back({.reward = 0, .wrong = wrong});
  if (correct > 0) prompt.levels.push_back({.reward = 1, .correct = correct});
  return prompt;
}

TEST(ConstantChance, IsTheShareOfAllGroupsThatAreConstant) {
  // Of 3 right and 5 wrong completions every group of 2 and of 3.
  const std::vector<int> rewards = {1, 1, 1, 0, 0, 0, 0, 0};
  int pairs = 0, equal_pairs = 0, triples = 0, equal_triples = 0;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    for (std::size_t j = i + 1; j < rewards.size(); ++j) {
      ++pairs;
      equal_pairs += rewards[i] == rewards[j] ? 1 : 0;
      for (std::size_t k = j + 1; k < rewards.size(); ++k) {
        ++triples;
        equal_triples += rewards[i] == rewards[j] && rewards[j] == rewards[k] ? 1 : 0;
      }
    }
  }
  const SampledPrompt prompt = Binary(3, 5);
  EXPECT_DOUBLE_EQ(ConstantChance(prompt, 2), static_cast<double>(equal_pairs) / pairs);
  EXPECT_DOUBLE_EQ(ConstantChance(prompt, 3), static_cast<double>(equal_triples) / triples);
  EXPECT_EQ(ConstantChance(prompt, 1), 1);
  EXPECT_EQ(ConstantChance(prompt, 8), 0);
  EXPECT_EQ(ConstantChance(Binary(0, 8), 8), 1);
}

TEST(SampledPrompt, RewardsOfEqualValueAreOneLevelAndUnscorableOnesAreLeftOut) {
  constexpr auto kRight = Outcome::kCorrect, kWrong = Outcome::kWrong;
  const std::vector<double> rewards = {1.2, 0, 0.2, 1.2f, 0, 1};
  const std::vector<Outcome> outcomes = {kRight, kWrong, kWrong, kRight, Outcome::kUnscorable,
                                         kRight};
  const SampledPrompt prompt = SampledPromptOf(rewards, outcomes);
  ASSERT_EQ(prompt.levels.size(), 4);
  EXPECT_EQ(prompt.levels[3].correct, 2);
  EXPECT_EQ(prompt.trials(), (Trials{3, 5}));
  EXPECT_FALSE(prompt.binary());
  EXPECT_DOUBLE_EQ(ConstantChance(prompt, 2), 0.1);
  EXPECT_TRUE(Binary(3, 5).binary());
  EXPECT_FALSE((SampledPrompt{.levels = {{.reward = 1, .correct = 1, .wrong = 1}}}.binary()));
}

TEST(GroupRate, BasisFollowsTheSize) {
  const std::vector<SampledPrompt> prompts = {Binary(0, 16), Binary(8, 8), Binary(16, 0),
                                              Binary(1, 2)};
  const GroupRate counted = GroupRateAt(prompts, 16);
  EXPECT_EQ(counted.basis, RateBasis::kCounted);
  EXPECT_EQ(counted.constant.prompts, 3);
  EXPECT_DOUBLE_EQ(counted.constant.mean, 2.0 / 3);
  EXPECT_EQ(GroupRateAt(prompts, 32).basis, RateBasis::kFitted);
  const GroupRate bound = GroupRateAt(prompts, 33);
  EXPECT_EQ(bound.basis, RateBasis::kBound);
  EXPECT_EQ(bound.constant.low, 0);
  EXPECT_EQ(bound.constant.high, counted.constant.high);
  EXPECT_TRUE(std::isnan(bound.constant.mean));
}

TEST(GroupRate, PartialCreditIsCountedAndNotFitted) {
  SampledPrompt prompt;
  for (const double reward : {0.0, 0.25, 0.5, 0.75})
    prompt.levels.push_back({.reward = reward, .wrong = 4});
  const std::vector<SampledPrompt> prompts(8, prompt);
  EXPECT_NEAR(GroupRateAt(prompts, 4).constant.mean, 4.0 / 1820, 1e-12);
  EXPECT_EQ(GroupRateAt(prompts, 32).basis, RateBasis::kBound);
  EXPECT_EQ(DifficultyOf(prompts), std::nullopt);
}

TEST(GroupRate, NothingIsKnownWithoutPairs) {
  for (const std::vector<SampledPrompt>& prompts :
       {std::vector<SampledPrompt>{}, {Binary(1, 0)}, {SampledPrompt{}, SampledPrompt{}}}) {
    const GroupRate rate = GroupRateAt(prompts, 8);
    EXPECT_EQ(rate.basis, RateBasis::kBound);
    EXPECT_EQ(rate.constant.high, 1);
  }
}

// Success rates of all prompts of a dataset.
using Rates = std::vector<double>;

constexpr std::size_t kDataset = 2000;

Rates PointRates(const std::vector<std::pair<double, double>>& points) {
  Rates rates;
  for (const auto& [share, rate] : points)
    rates.resize(rates.size() + static_cast<std::size_t>(std::lround(share * kDataset)), rate);
  return rates;
}

// Quantiles of Beta(a, b), from its density on a fine grid.
Rates BetaRates(double a, double b) {
  constexpr int kCells = 200000;
  std::vector<double> cumulative = {0};
  for (int i = 0; i < kCells; ++i) {
    const double p = (i + 0.5) / kCells;
    cumulative.push_back(cumulative.back() + std::pow(p, a - 1) * std::pow(1 - p, b - 1));
  }
  Rates rates;
  std::size_t cell = 0;
  for (std::size_t k = 0; k < kDataset; ++k) {
    const double target = (static_cast<double>(k) + 0.5) / kDataset * cumulative.back();
    while (cumulative[cell + 1] < target) ++cell;
    rates.push_back((static_cast<double>(cell) + 0.5) / kCells);
  }
  return rates;
}

// 90 % of the prompts are never right.
Rates MostlyZero() {
  Rates rates = BetaRates(1, 3);
  for (std::size_t k = 0; k < rates.size(); ++k) rates[k] *= k % 10 == 0 ? 1 : 0;
  return rates;
}

constexpr int kProbes = 400;
constexpr std::int64_t kCompletions = 16;

struct Coverage {
  double truth = 0;
  int hits = 0;
  double width = 0;

  void Add(const Estimate& estimate, double the_truth) {
    truth = the_truth;
    hits += estimate.low <= truth && truth <= estimate.high ? 1 : 0;
    width += estimate.high - estimate.low;
  }

  double share() const { return static_cast<double>(hits) / kProbes; }
};

std::vector<SampledPrompt> Probe(const Rates& dataset, RandomStream& random) {
  constexpr std::size_t kPrompts = 200;
  std::vector<SampledPrompt> prompts;
  for (std::size_t i = 0; i < kPrompts; ++i) {
    const double rate = dataset[random.Below(dataset.size())];
    std::int64_t correct = 0;
    for (std::int64_t j = 0; j < kCompletions; ++j) correct += random.Uniform() < rate ? 1 : 0;
    prompts.push_back(Binary(correct, kCompletions - correct));
  }
  return prompts;
}

// The mean of `of_rate` over the dataset.
template <class Function>
double Truth(const Rates& dataset, Function of_rate) {
  double sum = 0;
  for (const double rate : dataset) sum += of_rate(rate);
  return sum / static_cast<double>(dataset.size());
}

double TrueAcr(const Rates& dataset, std::int64_t size) {
  const auto n = static_cast<double>(size);
  return Truth(dataset, [n](double p) { return std::pow(p, n) + std::pow(1 - p, n); });
}

Estimate PassEstimate(const std::vector<SampledPrompt>& prompts, std::int64_t k) {
  std::vector<double> passes;
  for (const SampledPrompt& prompt : prompts)
    passes.push_back(
        PassAtK({static_cast<std::int64_t>(prompt.trials().correct), kCompletions}, k));
  return MeanOver(passes);
}

struct Dataset {
  std::string name;
  Rates rates;
  double least = 0.92;  // coverage
};

void PrintTo(const Dataset& dataset, std::ostream* out) { *out << dataset.name; }

class GroupRateCoverage : public ::testing::TestWithParam<Dataset> {};

// Of 400 simulated probes 95 % have the truth in their interval, by chance 92 to 98 %. A fitted
// rate has an interval that is wide enough for the bias of the fit, and covers more. Where six of
// 200 prompts are all that is ever right, the accuracy covers less.
TEST_P(GroupRateCoverage, IntervalsHoldTheTruth) {
  const auto& [name, dataset, least] = GetParam();
  std::map<std::string, Coverage> counted, fitted, bounds;
  RandomStream random({29, HashText(name)});
  for (int i = 0; i < kProbes; ++i) {
    const std::vector<SampledPrompt> prompts = Probe(dataset, random);
    for (const std::int64_t size : {4, 8, 16, 32, 64}) {
      auto& group = size <= kCompletions ? counted : size <= 2 * kCompletions ? fitted : bounds;
      group[fmt::format("ACR, G = {}", size)].Add(GroupRateAt(prompts, size).constant,
                                                  TrueAcr(dataset, size));
    }
    for (const std::int64_t k : {1, 4, 16})
      counted[fmt::format("pass@{}", k)].Add(
          PassEstimate(prompts, k),
          Truth(dataset, [k](double p) { return 1 - std::pow(1 - p, static_cast<double>(k)); }));
  }
  const auto print = [name = name](const std::string& what, const Coverage& of) {
    fmt::print("{:<26} {:<11} truth {:.3f}, covered {:5.1f} %, mean width {:.3f}\n", name, what,
               of.truth, 100 * of.share(), of.width / kProbes);
  };
  for (const auto& [what, of] : counted) {
    print(what, of);
    EXPECT_THAT(of.share(), AllOf(Ge(least), Le(0.98))) << what;
  }
  for (const auto* group : {&fitted, &bounds}) {
    for (const auto& [what, of] : *group) {
      print(what, of);
      EXPECT_GE(of.share(), 0.92) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GroupRateCoverage,
    ::testing::Values(Dataset{"Beta(0.1, 0.1)", BetaRates(0.1, 0.1)},
                      Dataset{"Beta(5, 5)", BetaRates(5, 5)},
                      Dataset{"90 % at 0, else Beta(1, 3)", MostlyZero()},
                      Dataset{"half at 0.02, half at 0.6", PointRates({{0.5, 0.02}, {0.5, 0.6}})},
                      Dataset{"all at 0.01", PointRates({{1, 0.01}})},
                      Dataset{"97 % at 0, 3 % at 0.3", PointRates({{0.97, 0}, {0.03, 0.3}}), 0.9}),
    [](const auto& test) { return fmt::format("Dataset{}", test.index); });

TEST(GroupRateCoverage, ACollapsedDatasetHasAnUpperEndBelowTwoPercentMixed) {
  const std::vector<SampledPrompt> prompts(200, Binary(0, kCompletions));
  const GroupRate rate = GroupRateAt(prompts, 8);
  EXPECT_EQ(rate.constant.mean, 1);
  EXPECT_GT(rate.constant.low, 0.98);
}

}  // namespace
}  // namespace buttress
