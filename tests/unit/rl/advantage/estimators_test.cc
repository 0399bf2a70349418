// Checks of single estimators, and their expected gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/config/load.h"
#include "lib/rl/advantage/advantage.h"
#include "tests/unit/rl/advantage/batch.h"

namespace buttress {
namespace {

TEST(EstimatorsTest, GdpoNeedsComponentsAndAWeightForEach) {
  TestBatch batch({{1, 0}});
  AlgorithmConfig options;
  options.advantage = Estimator::kGdpo;
  EXPECT_NE(ErrorOf(batch.input(), options).find("needs the components"), std::string::npos);
  batch.set_components({1, 0.5, 0, 0.5});
  EXPECT_EQ(ErrorOf(batch.input(), options), "");
  options.gdpo.weights = {1, 2, 3};
  EXPECT_NE(ErrorOf(batch.input(), options).find("has 3 weights, the reward has 2 components"),
            std::string::npos);
}

TEST(EstimatorsTest, TheWeightsOfNgrpoAndWReinforceAreSettings) {
  const TestBatch batch({{1, 0}});
  AlgorithmConfig options;
  options.advantage = Estimator::kNgrpo;
  options.ngrpo.max_reward = 2;  // rewards 0, 1 and 2: mean 1, standard deviation 1
  options.eps = 0;
  EXPECT_EQ(ComputeAdvantages(batch.input(), options)->advantages, (std::vector<double>{0, -1}));
  options.advantage = Estimator::kWReinforce;
  options.w_reinforce.positive_weight = 0.25;
  EXPECT_EQ(ComputeAdvantages(batch.input(), options)->advantages, (std::vector<double>{0.25, -1}));
}

TEST(EstimatorsTest, OutcomesMustBeKnownWhereTheyAreNeeded) {
  const TestBatch batch({{1, 0.5}, {0, 0}});
  AdvantageInput input = batch.input();
  AlgorithmConfig options;
  options.advantage = Estimator::kWReinforce;
  EXPECT_EQ(ErrorOf(input, options), "");
  input.outcomes = {};
  EXPECT_NE(ErrorOf(input, options).find("completion 1 of the batch has raw reward 0.5"),
            std::string::npos);
  options.advantage = Estimator::kPassAtK;
  EXPECT_NE(ErrorOf(input, options).find("pass_at_k needs outcomes"), std::string::npos);
  options.advantage = Estimator::kAGrae;
  EXPECT_EQ(ErrorOf(input, options), "");  // a rate may be partial credit
  const std::vector<double> signed_rewards = {1, -1, 0, 0};
  input.rewards = input.raw_rewards = signed_rewards;
  const auto classes = ClassifyGroups(signed_rewards, {}, input.group_offsets);
  input.classes = classes;
  input.collapse = MakeCollapseSnapshot(signed_rewards, {}, input.group_offsets, input.history);
  EXPECT_NE(ErrorOf(input, options).find("a_grae needs success rates"), std::string::npos);
}

TEST(EstimatorsTest, RewardsThatDifferByRoundingGiveNothing) {
  const double rounded = static_cast<double>(0.7F);
  const TestBatch batch({{1, 1, 1, 1, 1, 1, 1, 1.0000001}, {0.7, 0.7, rounded, 0.7}});
  AlgorithmConfig options;
  for (const Estimator estimator : {Estimator::kGrpo, Estimator::kDrGrpo, Estimator::kRloo,
                                    Estimator::kOpo, Estimator::kPassK, Estimator::kGpg}) {
    options.advantage = estimator;
    const auto out = ComputeAdvantages(batch.input(), options);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ(out->advantages, std::vector<double>(12, 0.0)) << ChoiceName(estimator);
    for (const CollapseClass collapse : batch.input().classes)
      EXPECT_NE(collapse, CollapseClass::kMixed);
  }
}

// Masked and replaced groups count in the rates over the batch as if they were still in it.
TEST(EstimatorsTest, RatesOverTheBatchCountTheGroupsThatWereLeftOut) {
  const TestGroups mixed = {{1, 0, 0, 0}, {1, 1, 0, 0}};
  TestGroups drawn = mixed;
  drawn.insert(drawn.end(), 3, {0, 0, 0, 0});
  drawn.push_back({1, 1, 1, 1});
  const TestBatch whole(drawn), kept(mixed);
  AdvantageInput input = kept.input();
  input.left_out = {.groups = 4, .all_correct = 1, .all_wrong = 3};
  AlgorithmConfig options;
  const auto expect_equal = [&] {
    const auto all = ComputeAdvantages(whole.input(), options);
    const auto some = ComputeAdvantages(input, options);
    ASSERT_TRUE(all.ok() && some.ok());
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_NEAR(some->advantages[i], all->advantages[i], 1e-12) << i;
    EXPECT_NE(some->advantages[0], 0);
  };
  options.advantage = Estimator::kAGrae;
  for (const AGraeForm form : {AGraeForm::kPaper, AGraeForm::kReleased}) {
    options.a_grae.form = form;
    expect_equal();
  }
  options.advantage = Estimator::kGpg;
  options.gpg.form = GpgForm::kOfficial;
  expect_equal();
}

TEST(EstimatorsTest, GpgWithoutAnyRewardGivesZero) {
  const TestBatch batch({{0, 0}, {0, 0}});
  AlgorithmConfig options;
  options.advantage = Estimator::kGpg;
  for (const GpgForm form : {GpgForm::kVerl, GpgForm::kOfficial}) {
    options.gpg.form = form;
    EXPECT_EQ(ComputeAdvantages(batch.input(), options)->advantages, std::vector<double>(4, 0.0))
        << ChoiceName(form);
  }
}

TEST(EstimatorsTest, CompletionsWithoutTokensWeighNothing) {
  TestBatch batch({{1, 0, 0}, {0, 0, 0}});
  batch.set_lengths({0, 0, 0, 0, 0, 0});
  AlgorithmConfig options;
  for (const Estimator estimator :
       {Estimator::kOpo, Estimator::kReinforcePp, Estimator::kReinforcePpBaseline}) {
    options.advantage = estimator;
    EXPECT_EQ(ComputeAdvantages(batch.input(), options)->advantages, std::vector<double>(6, 0.0))
        << ChoiceName(estimator);
  }
}

std::vector<double> OfTokens(double scale) {
  const std::vector<double> entropies = {0.1, 0.5, 1.2, 0};
  std::vector<double> advantages(4);
  TokenAdvantages(0.0, scale, entropies, advantages);
  return advantages;
}

TEST(RlZvpTest, TokensOfConstantGroupsAreWeighedByTheirEntropy) {
  const std::vector<double> correct = {.01, .05, .12, 0};
  const std::vector<double> wrong = {-.11, -.07, 0, -.12};
  for (std::size_t t = 0; t < 4; ++t) {
    EXPECT_NEAR(OfTokens(0.1)[t], correct[t], 1e-15);
    EXPECT_NEAR(OfTokens(-0.1)[t], wrong[t], 1e-15);
  }
  std::vector<double> advantages(4);
  TokenAdvantages(0.5, 0.0, std::vector<double>{0.1, 0.5, 1.2, 0}, advantages);
  EXPECT_EQ(advantages, std::vector<double>(4, 0.5));
}

TEST(ExpectedGradientTest, HasTheTabulatedWeights) {
  const std::vector<double> p = {.01, .05, .10, .25, .50, .75, .90, .99};

  struct Row {
    std::vector<std::string> set;
    std::vector<double> weights;
  };

  const std::string avspo = "run.algorithm.advantage=avspo";
  const std::string population = "run.algorithm.std=population";
  const std::vector<Row> rows = {
      {{population},
       {2.608862, 2.473063, 2.327689, 2.026116, 1.855656, 2.026116, 2.327689, 2.608862}},
      {{}, {2.440367, 2.313338, 2.177354, 1.895258, 1.735807, 1.895258, 2.177354, 2.440367}},
      {{"run.algorithm.advantage=dr_grpo"}, std::vector<double>(8, .875)},
      {{"run.algorithm.advantage=rloo"}, std::vector<double>(8, 1.0)},
      {{"run.algorithm.advantage=ngrpo"},
       {2.079275, 2.013478, 1.943380, 1.803262, 1.767810, 1.998752, 2.327574, 2.627446}},
      {{avspo, population, "run.algorithm.avspo.mode=prior",
        "run.algorithm.avspo.prior.confidence_count=1e-9"},
       {2.639948, 2.525259, 2.378388, 2.048697, 1.859446, 2.048697, 2.378388, 2.639948}},
      {{avspo, population, "run.algorithm.avspo.mode=prior",
        "run.algorithm.avspo.prior.confidence_count=1e-9", "run.algorithm.avspo.prior.kappa=8"},
       {2.674935, 2.584886, 2.437418, 2.076615, 1.864677, 2.076615, 2.437418, 2.674935}},
  };
  for (const Row& row : rows) {
    const auto options = ParseAlgorithm(row.set);
    ASSERT_TRUE(options.ok()) << options.status().message();
    for (std::size_t i = 0; i < row.weights.size(); ++i) {
      EXPECT_NEAR(MomentsOf(p[i], 8, *options)->weight, row.weights[i], 2e-5)
          << row.set.size() << " settings, p = " << p[i];
    }
  }
}

// pass@k has the gradient k (1 - p)^(k - 1) grad p.
TEST(ExpectedGradientTest, PassAtKFollowsTheGradientOfPassAtK) {
  AlgorithmConfig options;
  options.advantage = Estimator::kPassAtK;
  options.std = StdKind::kNone;
  for (const int k : {1, 2, 4, 7}) {
    options.pass_at_k.k = k;
    for (const double p : {.01, .25, .5, .9}) {
      const double gradient = k * std::pow(1 - p, k - 1);
      EXPECT_NEAR(MomentsOf(p, 8, options)->weight, (8.0 - k) / (8 * k) * gradient, 1e-9)
          << "k = " << k << ", p = " << p;
    }
  }
}

TEST(EstimatorsTest, PassAtKIsExactForLargeGroups) {
  TestGroups groups = {TestGroups::value_type(100'000, 0.0)};
  AlgorithmConfig options;
  options.advantage = Estimator::kPassAtK;
  options.eps = 0;
  options.pass_at_k.k = 1000;
  for (const int correct : {1, 30, 60'000}) {
    std::fill_n(groups[0].begin(), correct, 1.0);
    const TestBatch batch(groups);
    const auto out = ComputeAdvantages(batch.input(), options);
    ASSERT_TRUE(out.ok()) << out.status().message();
    // C(w, k) / C(n, k) = w! (n - k)! / ((w - k)! n!)
    const double w = 1e5 - correct;
    const double log_q = std::lgamma(w + 1) + std::lgamma(1e5 - 1000 + 1) -
                         std::lgamma(w - 1000 + 1) - std::lgamma(1e5 + 1);
    const double positive = std::exp(log_q / 2 - std::log(-std::expm1(log_q)) / 2);
    EXPECT_NEAR(out->advantages.front() / positive, 1, 1e-7) << correct;
    EXPECT_NEAR(out->advantages.back() / positive, -correct / w, 1e-7) << correct;
  }
}

TEST(ExpectedGradientTest, VirtualSamplesAddTheirSizeTimesTheProbabilityOfCollapse) {
  // The weight of grpo at p = 0.1, and the size a of the virtual advantages, which add a (p^7 + (1
  // - p)^7).
  struct Row {
    std::vector<std::string> set;
    double base;
    double size;
  };

  const std::string avspo = "run.algorithm.advantage=avspo";
  const std::vector<Row> rows = {
      {{avspo, "run.algorithm.avspo.mode=ladder", "run.algorithm.avspo.ladder.symmetric=true",
        "run.algorithm.std=population"},
       2.327689,
       0.811503},
      {{avspo, "run.algorithm.avspo.mode=opposite"}, 2.177354, 0.333333},
  };
  for (const Row& row : rows) {
    const auto options = ParseAlgorithm(row.set);
    ASSERT_TRUE(options.ok()) << options.status().message();
    EXPECT_NEAR(MomentsOf(0.1, 8, *options)->weight,
                row.base + row.size * (std::pow(0.1, 7) + std::pow(0.9, 7)), 2e-5)
        << ChoiceName(options->avspo.mode);
  }
}

// The figures of docs/estimators.md.
TEST(ExpectedGradientTest, OppositePaysForItsPushWithNoiseAndPriorDoesNot) {
  const auto relative = [](double p, AvspoMode mode) {
    AlgorithmConfig options;
    const GradientMoments grpo = *MomentsOf(p, 8, options);
    options.advantage = Estimator::kAvspo;
    options.avspo.mode = mode;
    const GradientMoments own = *MomentsOf(p, 8, options);
    const double signal = own.weight / grpo.weight, power = own.power / grpo.power;
    return std::vector<double>{signal, power, signal * signal / power};
  };
  const auto expect = [](const std::vector<double>& found, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 0.006) << i;
  };
  for (const double p : {0.01, 0.99}) {
    expect(relative(p, AvspoMode::kOpposite), {1.13, 2.52, 0.50});
    expect(relative(p, AvspoMode::kPrior), {1.01, 1.01, 1.01});
  }
  expect(relative(0.1, AvspoMode::kOpposite), {1.07, 1.10, 1.05});
  expect(relative(0.1, AvspoMode::kPrior), {1.02, 1.01, 1.04});
  expect(relative(0.002, AvspoMode::kOpposite), {1.13, 8.87, 0.14});
  expect(relative(0.002, AvspoMode::kPrior), {1.01, 1.01, 1.00});
}

TEST(ExpectedGradientTest, NoiseAddsNothingButItsOwnVariance) {
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kNoise;
  const TestBatch batch(TestGroups(64, std::vector<std::optional<double>>(8, 1.0)));
  AdvantageInput input = batch.input();
  std::vector<double> sums(8, 0.0);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    input.key = AdvantageKey(7, step);
    const auto out = ComputeAdvantages(input, options);
    ASSERT_TRUE(out.ok());
    for (std::size_t i = 0; i < out->advantages.size(); ++i) sums[i % 8] += out->advantages[i];
  }
  // 12,800 draws of variance 7/8 for each index: five standard deviations are 0.041.
  for (const double sum : sums) EXPECT_NEAR(sum / (64 * kSteps), 0.0, 0.041);
}

}  // namespace
}  // namespace buttress
