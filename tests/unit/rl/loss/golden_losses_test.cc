// tests/golden/losses.json: losses and gradients of verl's and TRL's own functions
// (make_losses.py).
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/oracles/losses/answer.h"

namespace buttress {
namespace {

TEST(GoldenLossesTest, ValuesAndGradientsAreThoseOfVerlAndTrl) {
  std::ifstream file(std::string(BUTTRESS_GOLDEN) + "/losses.json");
  const auto rows = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(rows.is_array());
  ASSERT_GT(rows.size(), 30u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const auto answer = LossAnswer(row["input"]);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    if (!row["loss"].is_null()) {
      EXPECT_NEAR((*answer)["loss"].get<double>(), row["loss"].get<double>(), 1e-5);
    }
    const auto expected = row["gradient"].get<std::vector<double>>();
    const auto gradient = (*answer)["gradient"].get<std::vector<double>>();
    ASSERT_EQ(gradient.size(), expected.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], expected[i], 5e-6) << "token " << i;
  }
}

}  // namespace
}  // namespace buttress
