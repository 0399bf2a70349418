// The math verifier on public data: MATH's solutions against themselves, and model outputs that
// people labelled.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/os/file.h"
#include "tests/support/datasets.h"
#include "tests/unit/verify/math/math_verifier.h"

namespace buttress {
namespace {

// Returns the rows of a JSONL file.
std::vector<nlohmann::json> Rows(const std::string& path) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(*ReadFile(path));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(MathData, EverySolutionOfMathVerifiesAgainstItself) {
  const auto verifier = MathVerifier();
  int judged = 0;
  for (const char* name : {"math/train.jsonl", "math/test.jsonl"}) {
    const std::string path = DataSetPath(name);
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << path << " is absent; set BUTTRESS_DATA to the folder of the data sets";
    for (const nlohmann::json& row : Rows(path)) {
      const auto solution = row["solution"].get<std::string>();
      const Verdict verdict = verifier->Verify({{}, solution, solution, {}, false});
      EXPECT_EQ(verdict.outcome, Outcome::kCorrect)
          << row["id"] << " given " << verdict.given << " gold " << verdict.gold << " "
          << verdict.unscorable_reason;
      EXPECT_EQ(verdict.anchor, "boxed") << row["id"];
      ++judged;
    }
  }
  EXPECT_EQ(judged, 12500);
}

TEST(MathData, AgreesWithTheLabelsOfGsm8kModelSolutions) {
  const std::string path = DataSetPath("gsm8k/example_model_solutions.jsonl");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is absent; set BUTTRESS_DATA to the folder of the data sets";
  const auto verifier = MathVerifier();
  int judged = 0;
  for (const nlohmann::json& row : Rows(path)) {
    const auto answer = row["ground_truth"].get<std::string>();
    for (const char* model :
         {"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"}) {
      const auto solution = row[model]["solution"].get<std::string>();
      const Verdict verdict = verifier->Verify({{}, solution, answer, {}, false});
      const Outcome label =
          row[model]["is_correct"].get<bool>() ? Outcome::kCorrect : Outcome::kWrong;
      EXPECT_EQ(verdict.outcome, label) << solution << "\n---- " << answer << "\n---- given "
                                        << verdict.given << " gold " << verdict.gold;
      ++judged;
    }
  }
  EXPECT_EQ(judged, 5276);
}

}  // namespace
}  // namespace buttress
