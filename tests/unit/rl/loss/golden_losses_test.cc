// tests/golden/losses.json: losses and gradients of verl's and TRL's own functions for 200 batches
// (make_losses.py), against those of the learner's code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "lib/config/load.h"
#include "tests/oracles/losses/answer.h"

namespace buttress::golden_losses_test {
namespace {

// Of the value, or of 1 if that is more: float32 against float64.
constexpr double kTolerance = 1e-5;

double Error(double found, double expected) {
  return std::abs(found - expected) / std::max(1.0, std::abs(expected));
}

TEST(GoldenLossesTest, ValuesAndGradientsAreThoseOfVerlAndTrl) {
  std::ifstream file(std::string(BUTTRESS_GOLDEN) + "/losses.json");
  const auto golden = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(golden.is_object());
  ASSERT_EQ(golden["batches"].size(), 200u);
  ASSERT_GT(golden["cases"].size(), 30u);
  for (const auto& peer : golden["cases"]) {
    const auto algorithm = ParseAlgorithm(peer["settings"].get<std::vector<std::string>>());
    ASSERT_TRUE(algorithm.ok()) << algorithm.status().ToString();
    double worst_loss = 0, worst_gradient = 0;
    std::size_t loss_at = 0, gradient_at = 0, compared = 0;
    for (std::size_t b = 0; b < golden["batches"].size(); ++b) {
      if (peer["gradients"][b].is_null()) continue;
      nlohmann::json input = golden["batches"][b];
      if (peer["on_policy"].get<bool>()) input["sampler"] = input["logprobs"];
      const auto answer = LossAnswer(input, *algorithm);
      ASSERT_TRUE(answer.ok()) << peer["name"] << ": " << answer.status().ToString();
      ++compared;
      if (!peer["losses"][b].is_null()) {
        const double error =
            Error((*answer)["loss"].get<double>(), peer["losses"][b].get<double>());
        if (!(error <= worst_loss)) loss_at = b;
        worst_loss = std::max(worst_loss, error);
      }
      const auto expected = peer["gradients"][b].get<std::vector<double>>();
      const auto gradient = (*answer)["gradient"].get<std::vector<double>>();
      ASSERT_EQ(gradient.size(), expected.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double error = Error(gradient[i], expected[i]);
        if (!(error <= worst_gradient)) gradient_at = b;
        worst_gradient = std::max(worst_gradient, error);
      }
    }
    EXPECT_GE(compared, 100u) << peer["name"];
    EXPECT_LE(worst_loss, kTolerance) << peer["name"] << ", batch " << loss_at;
    EXPECT_LE(worst_gradient, kTolerance) << peer["name"] << ", batch " << gradient_at;
  }
}

}  // namespace
}  // namespace buttress::golden_losses_test
