#include "learner/step/token_marks.h"

#include <gtest/gtest.h>

#include <limits>

namespace buttress {
namespace {

using Marks = std::vector<std::vector<std::uint8_t>>;

class TokenMarksTest : public testing::Test {
 protected:
  Marks Mark() const {
    const auto alone = MakeLocalCollective();
    auto marks = MarkTokens(rows, algorithm, {1, 2}, *alone, std::chrono::seconds(5));
    EXPECT_TRUE(marks.ok()) << marks.status().ToString();
    return marks.ok() ? *marks : Marks();
  }

  // mean A = 0.2, mean lp = -2.2; covariances 0.96, -0.64 | -0.24, 2.16, not finite | 0.96
  std::vector<MarkedRow> rows = {{4, 1.0, {-1, -3}},
                                 {7, -1.0, {-2, -4, std::numeric_limits<float>::quiet_NaN()}},
                                 {9, 1.0, {-1}}};
  AlgorithmConfig algorithm;
};

TEST_F(TokenMarksTest, KlCovMarksTheHighestCovariances) {
  algorithm.loss = PolicyLoss::kKlCov;
  algorithm.kl_cov.share = 0.2;  // one of five
  EXPECT_EQ(Mark(), (Marks{{0, 0}, {0, 1, 0}, {0}}));
  algorithm.kl_cov.share = 0.6;
  EXPECT_EQ(Mark(), (Marks{{1, 0}, {0, 1, 0}, {1}}));
}

TEST_F(TokenMarksTest, ClipCovMarksOnlyTokensWithinItsBounds) {
  algorithm.loss = PolicyLoss::kClipCov;
  algorithm.clip_cov = {.share = 1, .low = 0.5, .high = 2};
  EXPECT_EQ(Mark(), (Marks{{1, 0}, {0, 0, 0}, {1}}));
  algorithm.clip_cov.high = 3;
  EXPECT_EQ(Mark(), (Marks{{1, 0}, {0, 1, 0}, {1}}));
  algorithm.clip_cov.low = 2.5;
  EXPECT_EQ(Mark(), (Marks{{0, 0}, {0, 0, 0}, {0}}));
}

TEST_F(TokenMarksTest, WithoutTokensThereAreNoMarks) {
  rows.clear();
  for (const PolicyLoss loss : {PolicyLoss::kClipCov, PolicyLoss::kKlCov}) {
    algorithm.loss = loss;
    EXPECT_EQ(Mark(), Marks{});
  }
}

constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();

TEST(TokenCovarianceTest, IsOverAllTokensOfTheStepOnEveryRank) {
  const std::vector<float> first = {-1, -3, kNotFinite};
  const std::vector<float> second = {-2, -2, -4};
  CovarianceSums sums;
  sums.Add(1, first);
  sums.Add(-1, second);
  EXPECT_EQ(sums.tokens, 5);
  // mean A = -0.2, mean lp = -2.4
  const auto covariances = TokenCovariances(1, first, sums);
  EXPECT_NEAR(covariances[0], 1.2 * 1.4, 1e-12);
  EXPECT_NEAR(covariances[1], 1.2 * -0.6, 1e-12);
  EXPECT_TRUE(std::isinf(covariances[2]));
  EXPECT_NEAR(TokenCovariances(-1, second, sums)[2], -0.8 * -1.6, 1e-12);
}

TEST(MarkThresholdTest, IsTheMarkedThHighest) {
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(MarkThreshold({3, 1, none, 5, 4}, 2), 4);
  EXPECT_EQ(MarkThreshold({3, none, none}, 2), 3);
  EXPECT_EQ(MarkThreshold({none}, 1), -none);  // above every covariance
  EXPECT_EQ(MarkedTokens(0.0002, 100), 1);
  EXPECT_EQ(MarkedTokens(0.0002, 100000), 20);
}

TEST(DrawMarkTest, DrawsTheExpectedNumberByPlaceAlone) {
  const RandomKey key{7, 3};
  int marks = 0;
  for (std::int64_t row = 0; row < 200; ++row) {
    for (std::int64_t t = 0; t < 100; ++t) {
      const bool mark = DrawMark(key, row, t, 500, 20000);
      EXPECT_EQ(mark, DrawMark(key, row, t, 500, 20000));
      marks += mark ? 1 : 0;
    }
  }
  EXPECT_NEAR(marks, 500, 5 * std::sqrt(500.0));
  EXPECT_TRUE(DrawMark(key, 0, 0, 10, 10));  // as many eligible as marked: all
}

}  // namespace
}  // namespace buttress
