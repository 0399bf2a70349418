#include "cli/explain/reward_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace buttress {
namespace {

using Columns = std::map<std::string, double>;

// Adds groups of 8 with advantages as TRL computes them, in float32.
class AdvantageFitTest : public ::testing::Test {
 public:
  // `columns(prompt, i)` gives what is logged, `reward` the weighted sum or nothing.
  template <class Make, class Reward>
  AdvantageFit::Weights Of(Make columns, Reward reward, bool divide = true) {
    AdvantageFit fit;
    for (int prompt = 0; prompt < 20; ++prompt) {
      std::vector<Columns> rows;
      std::vector<std::optional<double>> rewards;
      double mean = 0, square = 0, count = 0;
      for (int i = 0; i < 8; ++i) {
        rows.push_back(columns(prompt, i));
        rewards.push_back(reward(rows.back()));
        if (!rewards.back()) continue;
        mean += *rewards.back();
        count += 1;
      }
      mean /= count;
      for (const auto& r : rewards) square += r ? (*r - mean) * (*r - mean) : 0;
      const double scale = divide ? std::sqrt(square / (count - 1)) + 1e-4 : 1.0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double advantage = rewards[i] ? static_cast<float>((*rewards[i] - mean) / scale) : 0;
        fit.Add({{"step", 1 + prompt / 4},
                 {"prompt", "p" + std::to_string(prompt % 4)},
                 {"advantage", advantage}},
                rows[i]);
      }
    }
    return fit.Finish();
  }

  double Draw() { return std::normal_distribution<double>()(rng_); }

  double Coin() { return Draw() > 0 ? 1 : 0; }

  std::mt19937 rng_{1};
};

TEST_F(AdvantageFitTest, FindsTheWeightsAndTheColumnsThatAreNoReward) {
  for (const bool divide : {true, false}) {
    const auto found = Of(
        [&](int prompt, int) {
          return Columns{{"right", prompt % 4 == 0 ? 0.0 : Coin()},
                         {"shape", std::round(8 * Draw()) / 8},
                         {"rude", Coin()},
                         {"letters", 500 + std::round(100 * Draw())}};
        },
        [](const Columns& row) {
          return std::optional(row.at("right") + 0.2 * row.at("shape") - 0.5 * row.at("rude"));
        },
        divide);
    EXPECT_TRUE(found.known);
    EXPECT_FALSE(found.excluded);
    EXPECT_EQ(found.of_column,
              (Columns{{"right", 1}, {"shape", 0.2}, {"rude", -0.5}, {"letters", 0}}));
  }
}

TEST_F(AdvantageFitTest, CompletionsWithoutARewardAreLeftOut) {
  const auto found = Of(
      [&](int, int i) {
        Columns row{{"letters", 500 + 100 * Draw()}};
        if (i != 3) row["right"] = Coin();
        if (i != 3 && i != 5) row["shape"] = Draw();
        return row;
      },
      [](const Columns& row) {
        if (!row.contains("right")) return std::optional<double>();
        return std::optional(row.at("right") + (row.contains("shape") ? 2 * row.at("shape") : 0));
      });
  EXPECT_TRUE(found.known);
  EXPECT_EQ(found.of_column, (Columns{{"right", 0.5}, {"shape", 1}, {"letters", 0}}));
}

TEST_F(AdvantageFitTest, ColumnsThatDifferTogetherHaveNoKnownWeights) {
  const auto found = Of(
      [&](int, int) {
        const double coin = Coin();
        return Columns{{"right", coin}, {"again", 2 * coin}, {"always", 1}};
      },
      [](const Columns& row) { return std::optional(row.at("right")); });
  EXPECT_FALSE(found.known);
  EXPECT_FALSE(found.excluded);
}

TEST_F(AdvantageFitTest, AdvantagesOfSomethingElseExcludeEverySum) {
  const auto found = Of(
      [&](int, int) {
        return Columns{{"right", Coin()}, {"shape", Draw()}};
      },
      [&](const Columns&) { return std::optional(Draw()); });
  EXPECT_FALSE(found.known);
  EXPECT_TRUE(found.excluded);
}

TEST_F(AdvantageFitTest, WithoutADifferenceInAGroupNothingIsKnown) {
  const auto found = Of(
      [](int prompt, int) {
        return Columns{{"right", prompt % 2}};
      },
      [](const Columns& row) { return std::optional(row.at("right")); });
  EXPECT_FALSE(found.known);
  EXPECT_FALSE(found.excluded);
}

}  // namespace
}  // namespace buttress
