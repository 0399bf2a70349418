#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/text/random.h"
#include "lib/explain/rates.h"

namespace buttress {
namespace {

// Fits groups of size `n` of prompts with the given success rates.
BetaFit FitOf(const std::vector<double>& rates, int n, int groups) {
  RandomStream random({7, 1});
  BetaFit fit;
  for (int g = 0; g < groups; ++g) {
    const double rate = rates[static_cast<std::size_t>(g) % rates.size()];
    int correct = 0;
    for (int i = 0; i < n; ++i) correct += random.Uniform() < rate ? 1 : 0;
    fit.Add(correct, n);
  }
  return fit;
}

TEST(BetaFitTest, EqualPromptsGiveTheBinomialRate) {
  const BetaFit fit = FitOf({0.3}, 8, 20000);
  EXPECT_NEAR(fit.mean(), 0.3, 0.01);
  EXPECT_NEAR(fit.ExpectedAcr(8), std::pow(0.3, 8) + std::pow(0.7, 8), 0.01);
  EXPECT_NEAR(fit.ExpectedAcr(2), 0.3 * 0.3 + 0.7 * 0.7, 0.01);
}

TEST(BetaFitTest, AUniformSpreadGivesTheRateOfTheUniformDistribution) {
  std::vector<double> rates;
  for (int i = 0; i < 1000; ++i) rates.push_back((i + 0.5) / 1000);
  const BetaFit fit = FitOf(rates, 8, 50000);
  EXPECT_NEAR(fit.ExpectedAcr(8), 2.0 / 9, 0.01);  // 2 / (n + 1) for uniform rates
  EXPECT_NEAR(fit.ExpectedAcr(32), 2.0 / 33, 0.01);
}

TEST(BetaFitTest, PromptsThatAreAlwaysOrNeverSolvedStayCollapsedAtAnySize) {
  EXPECT_EQ(FitOf({0.0, 1.0}, 8, 100).ExpectedAcr(64), 1.0);
  EXPECT_EQ(FitOf({0.0}, 8, 100).ExpectedAcr(64), 1.0);
  EXPECT_EQ(BetaFit().ExpectedAcr(8), 0.0);
}

}  // namespace
}  // namespace buttress
