// Templates of responses, filled with numbers, subjects, nouns and quantities: those that state the
// reference answer are correct, all others are wrong. By three files the rules of prose were
// written, the last one says how they do on completions that nobody thought of.
#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <random>
#include <sstream>
#include <string>

#include "lib/base/os/file.h"
#include "tests/unit/verify/math/math_verifier.h"

namespace buttress::math_templates_test {
namespace {

constexpr int kFillings = 25;  // of each template
constexpr int kMostWrongAccepts = 2;
constexpr int kMostRefused = 0;               // templates
constexpr int kMostHeldOutAccepts = 124;      // fillings, of 3150
constexpr int kMostHeldOutRefused = 7;        // templates, of 80
constexpr int kMostAuthorsAccepts = 202;      // fillings, of 6075
constexpr int kMostAuthorsRefused = 7;        // templates, of 156
constexpr int kMostCompletionsAccepts = 125;  // fillings, of 2875
constexpr int kMostCompletionsRefused = 5;    // templates, of 102

constexpr std::string_view kSubjects[] = {"Mia",      "the farmer", "the club",     "Mr. Lee",
                                          "her aunt", "Carlos",     "each of them", "the machine"};
constexpr std::string_view kNouns[] = {"apples", "tickets",  "red marbles", "students",
                                       "pages",  "children", "cups of tea", "dollars"};
constexpr std::string_view kQuantities[] = {"the answer",
                                            "the total cost",
                                            "the number of seats",
                                            "x",
                                            "the remaining amount",
                                            "it",
                                            "her age",
                                            "the area of the field",
                                            "the average",
                                            "their combined weight"};
constexpr std::string_view kLeads[] = {"", "", "", "We go step by step. ", "First, 3 + 4 = 7.\n\n"};

class Filler {
 public:
  // Returns the gold answer and the response of one filling.
  std::pair<std::string, std::string> Fill(std::string gold, std::string response) {
    const int right = 11 + Below(900);
    const std::pair<std::string_view, std::string> slots[] = {
        {"{n}", std::to_string(right)},
        {"{m}", std::to_string(right + 1 + Below(90))},
        {"{k}", std::to_string(right + 100 + Below(90))},
        {"{a}", std::to_string(1 + right / 3)},
        {"{b}", std::to_string(right - right / 3 - 1)},
        {"{c}", std::to_string(right + 1 + right / 3)},
        {"{s}", Any(kSubjects)},
        {"{u}", Any(kNouns)},
        {"{q}", Any(kQuantities)},
        {"\\n\\n ", "\n\n"},
        {"\\n ", "\n"}};
    for (const auto& [slot, value] : slots) {
      Replace(gold, slot, value);
      Replace(response, slot, value);
    }
    if (response.starts_with("the ") || response.starts_with("her ") ||
        response.starts_with("each ") || response.starts_with("it ") ||
        response.starts_with("their "))
      response[0] = static_cast<char>(response[0] - 'a' + 'A');
    return {gold, Any(kLeads) + response};
  }

 private:
  int Below(std::size_t n) { return static_cast<int>(random_() % n); }

  template <class List>
  std::string Any(const List& list) {
    return std::string(list[static_cast<std::size_t>(Below(std::size(list)))]);
  }

  static void Replace(std::string& text, std::string_view from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
      text.replace(at, from.size(), to);
  }

  std::mt19937 random_{29};
};

struct Rate {
  int templates = 0;
  int failed = 0;  // at least one filling is judged otherwise than labelled
  int fillings = 0;
  int misjudged = 0;
};

struct Rates {
  Rate wrong;
  Rate right;
};

// Judges the templates of a file; `show`: prints one filling of each that is misjudged.
Rates Judge(const std::string& name, bool show) {
  const auto verifier = MathVerifier();
  std::istringstream lines(*ReadFile(BUTTRESS_SOURCE_DIR "/tests/golden/" + name));
  Filler filler;
  Rates rates;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = std::min(line.find("  ==  "), line.find("  !=  "));
    if (line.starts_with('#') || at == std::string::npos) continue;
    const bool right = line[at + 2] == '=';
    Rate& rate = right ? rates.right : rates.wrong;
    int misjudged = 0;
    for (int i = 0; i < kFillings; ++i) {
      const auto [gold, response] = filler.Fill(line.substr(0, at), line.substr(at + 6));
      const Verdict verdict = verifier->Verify({{}, response, gold, {}, false});
      if (right == (verdict.outcome == Outcome::kCorrect)) continue;
      if (show && misjudged++ == 0)
        std::printf("%s %s  |  %s  |  given %s\n", right ? "refused" : "ACCEPTED", line.c_str(),
                    response.c_str(), verdict.given.c_str());
      ++rate.misjudged;
      if (!show) misjudged = 1;
    }
    ++rate.templates;
    rate.fillings += kFillings;
    if (misjudged > 0) ++rate.failed;
  }
  std::printf(
      "%s: %d of %d wrong accepted (%d of %d templates), %d of %d right refused (%d of %d)\n",
      name.c_str(), rates.wrong.misjudged, rates.wrong.fillings, rates.wrong.failed,
      rates.wrong.templates, rates.right.misjudged, rates.right.fillings, rates.right.failed,
      rates.right.templates);
  return rates;
}

TEST(MathTemplates, WrongOnesAreRefusedAndRightOnesRead) {
  const Rates rates = Judge("math_templates.txt", /*show=*/true);
  EXPECT_GT(rates.wrong.fillings, 4000);
  EXPECT_LE(rates.wrong.misjudged, kMostWrongAccepts);
  EXPECT_LE(rates.right.failed, kMostRefused);
}

TEST(MathTemplates, ThoseOnceHeldOutAreMostlyJudgedAsLabelled) {
  const Rates rates = Judge("math_templates_held_out.txt", /*show=*/true);
  EXPECT_GT(rates.wrong.fillings, 3000);
  EXPECT_LE(rates.wrong.misjudged, kMostHeldOutAccepts);
  EXPECT_LE(rates.right.failed, kMostHeldOutRefused);
}

TEST(MathTemplates, ThoseOfOtherStylesAreMostlyJudgedAsLabelled) {
  const Rates rates = Judge("math_templates_authors.txt", /*show=*/true);
  EXPECT_GT(rates.wrong.fillings, 6000);
  EXPECT_LE(rates.wrong.misjudged, kMostAuthorsAccepts);
  EXPECT_LE(rates.right.failed, kMostAuthorsRefused);
}

TEST(MathTemplates, CompletionsThatNoRuleWasWrittenForAreMostlyJudgedAsLabelled) {
  const Rates rates = Judge("math_templates_completions.txt", /*show=*/false);
  EXPECT_GT(rates.wrong.fillings, 2800);
  EXPECT_LE(rates.wrong.misjudged, kMostCompletionsAccepts);
  EXPECT_LE(rates.right.failed, kMostCompletionsRefused);
}

}  // namespace
}  // namespace buttress::math_templates_test
