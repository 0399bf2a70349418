// The pairs of tests/golden/math_pairs.txt, which cover every form of answers: pairs that are equal
// in both modes, only in lenient mode, or in neither.
#include <gtest/gtest.h>

#include <sstream>

#include "lib/base/os/file.h"
#include "lib/verify/verifier.h"

namespace buttress::math_pairs_test {
namespace {

struct AnswerPair {
  std::string form;  // "mixed numbers"
  std::string a;
  std::string b;
  bool lenient = false;   // whether `a` answers `b` in this mode
  bool backward = false;  // whether `b` answers `a` in the lenient mode
  bool strict = false;    // both ways
};

std::string WithLineEnds(std::string text) {
  for (std::size_t at = text.find("\\n "); at != std::string::npos; at = text.find("\\n ", at))
    text.replace(at, 3, "\n");
  return text;
}

std::vector<AnswerPair> ReadPairs() {
  std::vector<AnswerPair> pairs;
  std::istringstream lines(*ReadFile(BUTTRESS_SOURCE_DIR "/tests/golden/math_pairs.txt"));
  std::string form;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::size_t at = std::string::npos;
    for (const char* sign : {"  ==  ", "  ~=  ", "  ~>  ", "  !=  "})
      at = std::min(at, line.find(sign));
    if (at == std::string::npos) {
      EXPECT_TRUE(line.front() == '[' && line.back() == ']') << line;
      form = line.substr(1, line.size() - 2);
      continue;
    }
    const char sign = line[at + 2];
    pairs.push_back({form, WithLineEnds(line.substr(0, at)), WithLineEnds(line.substr(at + 6)),
                     sign != '!', sign != '!' && line[at + 3] != '>', sign == '='});
  }
  return pairs;
}

TEST(MathPairs, AreJudgedAsTheFileStatesInBothModesAndDirections) {
  const std::vector<AnswerPair> pairs = ReadPairs();
  EXPECT_GT(pairs.size(), 500U);
  for (const bool strict : {false, true}) {
    RewardConfig config;
    config.math.mode = strict ? MathMode::kStrict : MathMode::kLenient;
    const auto verifier = MakeVerifier("math", config);
    ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
    for (const AnswerPair& pair : pairs) {
      for (const bool backward : {false, true}) {
        const bool same = strict ? pair.strict : backward ? pair.backward : pair.lenient;
        const std::string& given = backward ? pair.b : pair.a;
        const std::string& gold = backward ? pair.a : pair.b;
        const std::string response = "Thus it is $\\boxed{" + given + "}$.";
        const std::string answer = "\\boxed{" + gold + "}";
        const Verdict verdict = (*verifier)->Verify({{}, response, answer, {}, false});
        EXPECT_EQ(verdict.outcome, same ? Outcome::kCorrect : Outcome::kWrong)
            << pair.form << ", " << (strict ? "strict" : "lenient") << ": " << given << " to "
            << gold << ": " << verdict.given << " | " << verdict.gold << " "
            << verdict.unscorable_reason;
      }
    }
  }
}

// If a sentence does not parse as a whole, a number of it may count, so that different answers may
// be equal here. Only equal pairs are tested. "> 12" is a quote in a box and a bound in a sentence.
TEST(MathPairs, EqualPairsAreEqualInASentence) {
  const auto verifier = MakeVerifier("math", RewardConfig{});
  ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
  for (const AnswerPair& pair : ReadPairs()) {
    if (!pair.lenient || pair.a.starts_with("> ")) continue;
    const std::string answer = "\\boxed{" + pair.b + "}";
    const Verdict verdict =
        (*verifier)->Verify({{}, "The final answer is $" + pair.a + "$.", answer, {}, false});
    EXPECT_EQ(verdict.outcome, Outcome::kCorrect) << pair.form << ": " << pair.a << " to " << pair.b
                                                  << ": " << verdict.given << " | " << verdict.gold;
  }
}

}  // namespace
}  // namespace buttress::math_pairs_test
