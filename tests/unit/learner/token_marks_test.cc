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

}  // namespace
}  // namespace buttress
