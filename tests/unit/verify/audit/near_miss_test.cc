// Near misses of every MATH answer, and format variants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/os/file.h"
#include "lib/verify/anchors.h"
#include "lib/verify/audit/variants.h"
#include "tests/support/datasets.h"
#include "tests/unit/verify/math/math_verifier.h"

namespace buttress {
namespace {

// Near misses of an answer: 10, or as many as $BUTTRESS_NEAR_MISSES says (tests/run.sh --with
// near_misses).
std::size_t MissesOfEach() {
  const char* const wanted = std::getenv("BUTTRESS_NEAR_MISSES");
  return wanted == nullptr ? 10 : std::stoul(wanted);
}

// Returns the solutions of both parts of MATH; empty if the data are absent.
std::vector<std::string> MathSolutions() {
  std::vector<std::string> solutions;
  for (const char* name : {"math/train.jsonl", "math/test.jsonl"}) {
    const Result<std::string> text = ReadFile(DataSetPath(name));
    if (!text.ok()) return {};
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);)
      solutions.push_back(nlohmann::json::parse(line)["solution"].get<std::string>());
  }
  return solutions;
}

TEST(NearMiss, NearMissesOfEveryMathAnswerAreWrong) {
  const std::vector<std::string> solutions = MathSolutions();
  if (solutions.empty())
    GTEST_SKIP() << DataSetPath("math")
                 << " is absent; set BUTTRESS_DATA to the folder of the data sets";
  const auto verifier = MathVerifier();
  const std::size_t most = MissesOfEach();
  std::map<std::string, int, std::less<>> judged;
  int correct = 0;
  int all = 0;
  for (const std::string& solution : solutions) {
    const auto box = InLastBox(solution);
    if (!box || LastBoxes(solution).size() > 1) continue;
    for (const NearMiss& miss : NearMisses(*box, most)) {
      const Verdict verdict =
          verifier->Verify({{}, "\\boxed{" + miss.text + "}", solution, {}, false});
      ++judged[std::string(miss.rule)];
      ++all;
      if (verdict.outcome != Outcome::kCorrect) continue;
      ++correct;
      ADD_FAILURE() << miss.rule << ": given " << miss.text << " gold " << *box << ": "
                    << verdict.given << " | " << verdict.gold;
    }
  }
  EXPECT_EQ(correct, 0);
  std::printf("%d near misses, %d accepted\n", all, correct);
  EXPECT_GT(all, most > 50 ? 400000 : 123000);
  for (const char* rule :
       {"sign", "digit", "order", "bracket", "operator", "point", "entry", "unit", "letter"}) {
    EXPECT_GT(judged[rule], 100) << rule;
    RecordProperty(rule, judged[rule]);
  }
}

TEST(NearMiss, FormatsOfEveryMathAnswerAreJudgedAlike) {
  const std::vector<std::string> solutions = MathSolutions();
  if (solutions.empty())
    GTEST_SKIP() << DataSetPath("math")
                 << " is absent; set BUTTRESS_DATA to the folder of the data sets";
  const auto verifier = MathVerifier();
  for (std::size_t i = 0; i < solutions.size(); i += 10) {
    const auto box = InLastBox(solutions[i]);
    if (!box) continue;
    for (const FormatVariant& variant : FormatVariants(*box)) {
      const Verdict verdict = verifier->Verify({{}, variant.response, solutions[i], {}, false});
      EXPECT_EQ(verdict.outcome, Outcome::kCorrect)
          << variant.name << ": " << variant.response << " gold " << *box << ": " << verdict.given
          << " | " << verdict.gold;
    }
  }
}

TEST(NearMiss, EveryRuleMakesANearMiss) {
  const auto misses = [](std::string_view answer) {
    std::map<std::string_view, std::vector<std::string>> by_rule;
    for (const NearMiss& miss : NearMisses(answer, 100)) by_rule[miss.rule].push_back(miss.text);
    return by_rule;
  };
  const auto has = [&](std::string_view answer, std::string_view rule, const std::string& miss) {
    const auto made = misses(answer)[rule];
    EXPECT_NE(std::find(made.begin(), made.end(), miss), made.end())
        << rule << ": " << miss << " of " << answer;
  };
  has("12", "sign", "-12");
  has("-12", "sign", "12");
  has("12", "digit", "13");
  has("12", "order", "21");
  has("(1,2)", "order", "(2,1)");
  has("\\frac{1}{2}", "order", "\\frac{2}{1}");
  has("(1,2)", "bracket", "[1,2)");
  has("2(x+1)", "bracket", "2x+1");
  has("x+1", "operator", "x-1");
  has("5\\text{ cm}", "unit", "5\\text{ m}");
  has("x+1", "letter", "y+1");
  has("12", "point", "1.2");
  has("1, 2", "entry", "1");
  EXPECT_TRUE(misses("0")["sign"].empty());
  EXPECT_TRUE(misses("\\pm 5")["sign"].empty());
  EXPECT_TRUE(misses("").empty());
}

}  // namespace
}  // namespace buttress
