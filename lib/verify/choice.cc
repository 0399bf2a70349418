// Verifier choice: a letter of multiple choice, A to J, written as "B", "(B)", "B.", "**B**",
// "\text{B}" or "B) because ...".
//
// The letter is read from the final answer (FindFinalAnswer): the first that its sentence states
// (math/assertion.h), or in a response without an anchor the last. "A or B" names two letters and
// is wrong, "not A but B" is B. The article of "A good choice" and the pronoun of "I am" are no
// letters (IsOptionLetter).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lib/verify/anchors.h"
#include "lib/verify/math/explain.h"
#include "lib/verify/prose/assertion.h"
#include "lib/verify/prose/prose.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxLetters = 64;  // of a text that are read to find the one that is stated

// Returns the last letters of the text, in order.
std::vector<std::string_view> Letters(std::string_view text) {
  std::vector<std::string_view> letters;
  for (std::size_t i = text.size(); i > 0 && letters.size() < kMaxLetters; --i) {
    if (IsOptionLetter(text, i - 1)) letters.push_back(text.substr(i - 1, 1));
  }
  std::ranges::reverse(letters);
  return letters;
}

// Returns the first of `letters` that `text` states. A doubted one before it, or one that an
// earlier one of `letters` denies, leaves the text without an answer.
std::optional<char> FirstStated(std::string_view text,
                                const std::vector<std::string_view>& letters) {
  std::string denied;
  for (const std::string_view letter : letters) {
    const Assertion assertion = ReadAssertion(text, letter, false, ProseValues::kLetters);
    if (assertion == Assertion::kOpen) return std::nullopt;
    if (assertion == Assertion::kDenied) denied += letter;
    if (assertion == Assertion::kStated)
      return denied.find(letter[0]) == std::string::npos ? std::optional(letter[0]) : std::nullopt;
  }
  return std::nullopt;
}

struct ReadLetter {
  std::optional<char> letter;
  std::string_view anchor;
};

ReadLetter FindLetter(const VerifyRequest& request) {
  const auto found = FindFinalAnswer(request);
  if (!found) return {};
  const bool announced = found->anchor == "answer is";
  std::vector<std::string_view> letters = Letters(found->text);
  if (!letters.empty() && found->anchor != "whole")
    return {FirstStated(announced ? request.response : found->text, letters), found->anchor};
  if (request.truncated || (!announced && found->anchor != "whole")) return {};
  letters = Letters(request.response);
  std::ranges::reverse(letters);
  return {FirstStated(request.response, letters), "whole"};
}

std::string Why(const VerifyRequest& request, const ReadLetter& given, const ReadLetter& gold) {
  if (given.letter)
    return given.letter == gold.letter ? "the letters are the same" : "the letters differ";
  if (EndsInOpenBox(request.response)) return "unclosed \\boxed";
  for (const std::string_view letter : Letters(request.response)) {
    const std::string why = WhyNotStated(request.response, letter, ProseValues::kLetters);
    if (!why.empty()) return why;
  }
  return "the response names no letter from A to J where an answer stands";
}

}  // namespace

Verdict JudgeChoice(const VerifyRequest& request, const RewardConfig& /*config*/) {
  const ReadLetter gold =
      FindLetter({.prompt = {}, .response = request.answer, .answer = {}, .extra_json = {}});
  if (!gold.letter) return Unscorable("answer: no letter from A to J");
  const ReadLetter given = FindLetter(request);
  const std::string given_text = given.letter ? std::string(1, *given.letter) : "";
  const std::string gold_text(1, *gold.letter);
  Verdict verdict =
      given.letter == gold.letter ? Correct(given_text, gold_text) : Wrong(given_text, gold_text);
  verdict.anchor = given.anchor;
  if (request.explain)
    verdict.explanation = {given_text, gold_text, std::string(gold.anchor),
                           Why(request, given, gold)};
  return verdict;
}

}  // namespace buttress
