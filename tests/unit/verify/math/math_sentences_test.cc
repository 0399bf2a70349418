// 5,000 generated sentences around a value: those that state it are correct, and those that deny,
// doubt, bound, approximate, condition or list it, or compute with it, are wrong.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/unit/verify/math/math_verifier.h"

namespace buttress::math_sentences_test {
namespace {

constexpr int kSentences = 5000;
constexpr int kMostWrongAccepts = 2;
constexpr int kMostWrittenAccepts = 4;
constexpr int kMostWrittenRefusals = 1;

// N stands for the right value, M for another one, and U for a unit.
constexpr std::string_view kPlain[] = {"The answer is N.",
                                       "the answer is exactly N",
                                       "The final answer is N U.",
                                       "So N.",
                                       "So, N U.",
                                       "Therefore, the total is N.",
                                       "Thus there are N U left.",
                                       "It is N.",
                                       "It's N U.",
                                       "That makes N U.",
                                       "She has N U left.",
                                       "Hence he paid N.",
                                       "They need N U in total.",
                                       "This gives us N.",
                                       "Adding these up, we get N U.",
                                       "which comes to a total of N.",
                                       "It adds up to N U.",
                                       "x = N",
                                       "The sum equals N.",
                                       "The number of U is N.",
                                       "The value is equal to N.",
                                       "N is the answer.",
                                       "So N U is the final answer.",
                                       "N U are left.",
                                       "Altogether, that leaves her with N U.",
                                       "Answer: N",
                                       "The result: N U",
                                       "We conclude that the answer is N.",
                                       "In total, N U.",
                                       "The answer must be N.",
                                       "There is no doubt that it equals N.",
                                       "The answer is clearly N.",
                                       "In the end he has only N U.",
                                       "So the answer is N because M of them are not counted.",
                                       "It simplifies to N.",
                                       "She earned N more U than Tom.",
                                       "Total: N U",
                                       "Total = N",
                                       "He ends up with N U.",
                                       "The answer is N (in dollars).",
                                       "It comes out as N.",
                                       "I get N as the answer.",
                                       "That brings the total to N.",
                                       "The only possibility is N.",
                                       "The largest possible value is N.",
                                       "It can't be M, so it's N.",
                                       "Tom owns N U.",
                                       "Although it looks like M, the answer is N.",
                                       "I am not sure at first. The answer is N.",
                                       "### Final Answer\nN",
                                       "The answer is\nN",
                                       "So Tom will have N U after the trip."};
constexpr std::string_view kContrast[] = {"It is N, not M.",
                                          "The answer is N, not M.",
                                          "N, not M",
                                          "The answer is N and not M.",
                                          "It isn't M, it's N.",
                                          "The answer is not M but N.",
                                          "not M but, as seen, N",
                                          "So it is N rather than M.",
                                          "The answer is N instead of M.",
                                          "It's N U, not M."};
constexpr std::string_view kNegated[] = {"The answer is not N.",
                                         "It isn't N.",
                                         "It isn't N U.",
                                         "The answer can't be N.",
                                         "So not N.",
                                         "It is never N.",
                                         "The total does not equal N.",
                                         "The answer is anything but N.",
                                         "The answer is any number except N.",
                                         "It is unequal to N.",
                                         "N is wrong.",
                                         "N is not the answer.",
                                         "So N U cannot be right.",
                                         "I doubt that the answer is N.",
                                         "It is false that the answer is N.",
                                         "There is no way it is N.",
                                         "This doesn't make N.",
                                         "The answer is hardly N.",
                                         "We do not get N.",
                                         "It is far from N.",
                                         "x \\neq N",
                                         "The answer is neither N nor M.",
                                         "N would be incorrect.",
                                         "The answer isn\u2019t N.",
                                         "It is not true that it equals N.",
                                         "The answer is not\nN",
                                         "The final answer is not N U.",
                                         "N does not work.",
                                         "We see that N fails.",
                                         "She did not pay N U.",
                                         "By no means N.",
                                         "We exclude N."};
constexpr std::string_view kHedged[] = {"The answer is maybe N.",
                                        "Maybe N.",
                                        "Perhaps it is N.",
                                        "It might be N.",
                                        "It could be N U.",
                                        "The answer is probably N.",
                                        "Possibly N U.",
                                        "My guess is N.",
                                        "I guess it is N.",
                                        "I am not sure, but the answer is N.",
                                        "The answer may be N.",
                                        "It is N, I guess.",
                                        "The answer is N, but I'm not sure.",
                                        "Perhaps the answer is N.",
                                        "N, maybe.",
                                        "N maybe",
                                        "It seems to be N.",
                                        "Could it be N?",
                                        "Is the answer N?",
                                        "Presumably N U.",
                                        "The answer is likely N.",
                                        "If I had to guess, N.",
                                        "It could be M. It could be N.",
                                        "The answer is N if we leave out Tom.",
                                        "There's a chance it's N.",
                                        "It might as well be N.",
                                        "The answer is N. Or is it M?",
                                        "I cannot say N.",
                                        "It is unclear whether it is N.",
                                        "One possibility is N.",
                                        "A possible answer is N.",
                                        "N. I'm not sure though.",
                                        "One might think the answer is N.",
                                        "I have a feeling it is N."};
constexpr std::string_view kBounded[] = {"The answer is at least N.",
                                         "It is at most N U.",
                                         "It is less than N.",
                                         "greater than N",
                                         "The answer is more than N.",
                                         "no more than N U",
                                         "fewer than N",
                                         "It exceeds N.",
                                         "She has under N U.",
                                         "It is below N.",
                                         "It is above N.",
                                         "up to N U",
                                         "x > N",
                                         "x < N",
                                         "The answer is N or more.",
                                         "It is N or less.",
                                         "So at least N.",
                                         "over N U",
                                         "The answer is N at most.",
                                         "It takes a minimum of N U.",
                                         "It is N at least.",
                                         "The bound is N at best.",
                                         "The answer is >= N.",
                                         "N upwards",
                                         "anything above N"};
constexpr std::string_view kNear[] = {"The answer is about N.",
                                      "roughly N",
                                      "It is approximately N U.",
                                      "It is close to N.",
                                      "So around N U.",
                                      "nearly N",
                                      "It is almost N.",
                                      "x \u2248 N",
                                      "The answer is N or so.",
                                      "It's about N.",
                                      "approx. N",
                                      "The answer is ~N.",
                                      "The answer is N, give or take M.",
                                      "some N U"};
constexpr std::string_view kListed[] = {"The answer is N or M.",
                                        "It is M or N.",
                                        "It is between M and N.",
                                        "It is between N and M.",
                                        "from M to N",
                                        "The answer is from N to M.",
                                        "It is one of M, N.",
                                        "It is one of N, M, and 8901.",
                                        "either N or M",
                                        "The answer is M, N or 8901.",
                                        "The answer is N U or M U.",
                                        "It is N to M.",
                                        "N or maybe M",
                                        "It is N. Or M.",
                                        "The answer is N... or M",
                                        "It can be N or M.",
                                        "Candidates are N and M."};
constexpr std::string_view kOperand[] = {"The answer is N more than M.",
                                         "N divided by M",
                                         "It is N times M.",
                                         "It is M less than N.",
                                         "The answer is N plus M.",
                                         "It is divisible by N.",
                                         "M minus N",
                                         "It is M% of N.",
                                         "N of the M U",
                                         "It is N + M.",
                                         "There are M U in each of the N rows.",
                                         "N multiplied by M"};

struct Frames {
  std::string_view name;
  std::vector<std::string_view> frames;
  bool states;  // the right value
};

template <std::size_t n>
Frames Make(std::string_view name, const std::string_view (&frames)[n], bool states) {
  return {name, {std::begin(frames), std::end(frames)}, states};
}

std::string Replaced(std::string text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    const auto letter = [&](std::size_t i) {
      return i < text.size() && (std::isalpha(static_cast<unsigned char>(text[i])) != 0);
    };
    if ((at > 0 && letter(at - 1)) || letter(at + from.size())) {
      ++at;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

class Generator {
 public:
  int Below(std::size_t n) { return static_cast<int>(random_() % n); }

  template <class List>
  std::string_view Any(const List& list) {
    return list[static_cast<std::size_t>(Below(std::size(list)))];
  }

  std::string Number() {
    const int value = 11 + Below(8000);
    if (Below(4) > 0 || value < 1000) return std::to_string(value);
    const std::string digits = std::to_string(value);
    return digits.substr(0, 1) + "," + digits.substr(1);
  }

  // Returns the frame with values, in one of the ways that a number is typeset.
  std::string Fill(std::string_view frame, const std::string& right, const std::string& other) {
    constexpr std::string_view kLeads[] = {"", "", "We add both. ", "First, 3 + 4 = 7.\n\n",
                                           "Let me see.\n"};
    constexpr std::string_view kUnits[] = {"apples", "dollars", "red marbles", "students", "hours"};
    constexpr std::string_view kForms[] = {"#", "#", "#", "$#$", "**#**", "\\(#\\)"};
    const std::string_view form = Any(kForms);
    const auto typeset = [&](const std::string& number) {
      std::string text(form);
      return text.replace(text.find('#'), 1, number);
    };
    std::string text = Replaced(std::string(frame), "N", typeset(right));
    text = Replaced(std::move(text), "M", typeset(other));
    return std::string(Any(kLeads)) + Replaced(std::move(text), "U", std::string(Any(kUnits)));
  }

 private:
  std::mt19937 random_{20};
};

TEST(MathSentences, AValueCountsOnlyWhereTheSentenceStatesIt) {
  const Frames kinds[] = {Make("plain", kPlain, true),      Make("contrast", kContrast, true),
                          Make("negated", kNegated, false), Make("hedged", kHedged, false),
                          Make("bounded", kBounded, false), Make("near", kNear, false),
                          Make("listed", kListed, false),   Make("operand", kOperand, false)};
  const auto verifier = MathVerifier();
  Generator generator;
  int accepts = 0;
  for (int i = 0; i < kSentences; ++i) {
    const Frames& kind = kinds[static_cast<std::size_t>(i) % std::size(kinds)];
    const std::string right = generator.Number();
    const std::string other = generator.Number();
    if (right == other) continue;
    const std::string_view frame = generator.Any(kind.frames);
    const std::string sentence = generator.Fill(frame, right, other);
    const Verdict verdict = verifier->Verify({{}, sentence, right, {}, false});
    if (kind.states) {
      EXPECT_EQ(verdict.outcome, Outcome::kCorrect) << kind.name << ": " << sentence << "\n"
                                                    << right << " given " << verdict.given;
    }
    // The value that a contrast denies is refused, whichever it is.
    const bool wrong = !kind.states && verdict.outcome == Outcome::kCorrect;
    const bool wrong_other =
        kind.name == "contrast" &&
        verifier->Verify({{}, sentence, other, {}, false}).outcome == Outcome::kCorrect;
    if (!wrong && !wrong_other) continue;
    ++accepts;
    std::printf("accepted, %s: %s\n", std::string(kind.name).c_str(), sentence.c_str());
  }
  EXPECT_LE(accepts, kMostWrongAccepts);
}

// The responses of tests/golden/math_sentences.txt. A wrong one that is accepted is worse than a
// right one that is refused.
TEST(MathSentences, WrittenResponsesAreJudgedAsTheFileStates) {
  const auto verifier = MathVerifier();
  std::istringstream lines(*ReadFile(BUTTRESS_SOURCE_DIR "/tests/golden/math_sentences.txt"));
  int responses = 0;
  int refused = 0;
  int accepted = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = std::min(line.find("  ==  "), line.find("  !=  "));
    if (line.starts_with('#') || at == std::string::npos) continue;
    std::string response = line.substr(at + 6);
    for (std::size_t end = 0; (end = response.find("\\n ", end)) != std::string::npos;)
      response.replace(end, 3, "\n");
    const bool right = line[at + 2] == '=';
    const Verdict verdict = verifier->Verify({{}, response, line.substr(0, at), {}, false});
    ++responses;
    if (right == (verdict.outcome == Outcome::kCorrect)) continue;
    ++(right ? refused : accepted);
    std::printf("%s: %s; given %s\n", right ? "refused" : "accepted", line.c_str(),
                verdict.given.c_str());
  }
  EXPECT_EQ(responses, 419);
  EXPECT_LE(accepted, kMostWrittenAccepts);
  EXPECT_LE(refused, kMostWrittenRefusals);
}

}  // namespace
}  // namespace buttress::math_sentences_test
