#include "lib/rl/eval/paired_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

nlohmann::json ReadPairedVectors() {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/paired_test.json");
  EXPECT_TRUE(text.ok()) << text.status().message();
  return nlohmann::json::parse(text.ok() ? *text : "{}");
}

TEST(PairedPValueTest, OfRightAndWrongIsMcNemarsExactTest) {
  const auto rows = ReadPairedVectors()["binary"];
  ASSERT_EQ(rows.size(), 9U);
  for (const auto& row : rows) {
    std::vector<double> differences(row["first"].get<std::size_t>(), -1.0);
    differences.resize(differences.size() + row["second"].get<std::size_t>(), 1.0);
    differences.resize(differences.size() + 100, 0.0);  // prompts on which both agree
    EXPECT_NEAR(PairedPValue(differences) / row["p"].get<double>(), 1, 1e-9) << row.dump();
  }
  EXPECT_EQ(PairedPValue({}), 1);
  EXPECT_EQ(PairedPValue(std::vector<double>(5, 0.0)), 1);
}

TEST(PairedPValueTest, OfSharesIsTheShareOfRandomSigns) {
  const nlohmann::json rows = ReadPairedVectors()["shares"];
  int tested = 0;
  for (const auto& row : rows) {
    if (!row.contains("p")) continue;
    std::vector<double> differences;
    for (std::size_t i = 0; i < row["first"].size(); ++i)
      differences.push_back(row["second"][i].get<double>() - row["first"][i].get<double>());
    const auto p = row["p"].get<double>();
    EXPECT_NEAR(PairedPValue(differences), p, 4 * std::sqrt(p * (1 - p) / 100000)) << p;
    EXPECT_EQ(PairedPValue(differences), PairedPValue(differences));
    ++tested;
  }
  EXPECT_EQ(tested, 4);
}

TEST(PassAtKTest, OfHundredsOfCompletionsIsExact) {
  const auto rows = ReadPairedVectors()["pass_at_k"];
  ASSERT_EQ(rows.size(), 7U);
  for (const auto& row : rows) {
    const Successes successes{row["c"].get<std::int64_t>(), row["n"].get<std::int64_t>()};
    EXPECT_NEAR(PassAtK(successes, row["k"].get<std::int64_t>()), row["pass"].get<double>(), 1e-13)
        << row.dump();
  }
}

}  // namespace
}  // namespace buttress
