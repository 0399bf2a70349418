// Verifier number: the final number of a worked solution, as in GSM8K. The reference may be a whole
// solution and is read like a response.
//
// The number is read as the verifier math reads it (math/answer.h), with #### before \boxed{}: it
// may be written as 1,234.50, 3/4, \frac{3}{4}, 3 1/2, 1.5e3, 10^3 or "ten", with a currency, a
// percent sign or a unit, which do not count. Unlike math, it compares exactly, and a sum, product
// or quotient is no number (math/restated.h). A box with anything else is an answer that is not a
// number.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/explain.h"
#include "lib/verify/math/node_reader.h"
#include "lib/verify/math/restated.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/rational.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// Returns the number that the node is, without its unit. Of a chain of equations it is the last
// member, unless two members are different numbers.
std::optional<Rational> ValueOf(const MathNode& node) {
  switch (node.kind) {
    case MathKind::kUnit:
    case MathKind::kPercent:
    case MathKind::kDegree:
      return ValueOf(node.parts[0]);
    case MathKind::kRelation: {
      if (node.text.find_first_not_of('=') != std::string::npos) return std::nullopt;
      const auto last = ValueOf(node.parts.back());
      const auto agrees = [&](const MathNode& part) {
        return ValueOf(part).value_or(*last) == *last;
      };
      return last && std::ranges::all_of(node.parts, agrees) ? last : std::nullopt;
    }
    default:
      return HasFreeSymbols(node) ? std::nullopt : RationalValue(node);
  }
}

std::optional<Rational> ValueOf(const std::string& text, CommaReading commas) {
  const Result<MathNode> node = ReadNode(text, commas);
  return node.ok() ? ValueOf(*node) : std::nullopt;
}

// The answer of a text: a number, another text, or nothing.
struct ReadNumeral {
  std::optional<Rational> value;
  std::string anchor;
  std::string text;
  std::size_t end = 0;  // of its place in the text
};

constexpr std::string_view kAnchors[] = {"####",    "boxed", "final answer is",
                                         "answer:", "whole", "last expression"};

ReadNumeral FindNumber(std::string_view text, bool truncated, CommaReading commas) {
  for (const std::string_view anchor : kAnchors) {
    bool numerals = false;
    for (AnswerCandidate& one : FindAnswers(text, truncated, {std::string(anchor)}, commas)) {
      const bool vague = one.near && one.text.find('.') == std::string::npos;  // "about 5"
      if (one.refused || vague) return {};
      if (auto value = ValueOf(one.text, commas))
        return {std::move(value), std::move(one.anchor), std::move(one.text), one.end};
      if (one.anchor == "boxed") return {std::nullopt, std::move(one.anchor), std::move(one.text)};
      numerals = numerals || one.text.find_first_of("0123456789") != std::string::npos;
    }
    if (numerals && anchor != "whole") return {};  // "5 or 6"
  }
  return {};
}

std::string Why(const VerifyRequest& request, const ReadNumeral& given, const ReadNumeral& gold,
                const std::optional<Restatement>& later, CommaReading commas) {
  if (given.text.empty())
    return WhyNoAnswer(request.response, request.truncated,
                       {std::begin(kAnchors), std::end(kAnchors)}, commas);
  if (!given.value) return "the answer in the box is no number";
  if (later)
    return fmt::format("the response gives {} and later, by '{}', {}", given.text, later->anchor,
                       later->number);
  if (LeavesComputation(given.text, gold.text))
    return "the response leaves the computation to the verifier";
  return given.value == gold.value ? "both are the same number" : "the numbers differ";
}

}  // namespace

Verdict JudgeNumber(const VerifyRequest& request, const RewardConfig& config) {
  const CommaReading commas = CommasOf(config.math.decimal);
  const ReadNumeral gold = FindNumber(request.answer, /*truncated=*/false, commas);
  if (!gold.value) return Unscorable("answer: no number");
  const std::string gold_text = ToString(*gold.value);
  const ReadNumeral given = FindNumber(request.response, request.truncated, commas);
  std::optional<Rational> value = given.value;
  std::string given_text =
      value ? ToString(*value) : std::string(FirstBytes(given.text, kShownBytes));
  auto later = PlainNumber(given.text) ? FindRestatement(request.response, request.truncated,
                                                         {"####", "answer:"}, given.end)
                                       : std::nullopt;
  const auto other = later ? ValueOf(later->number, commas) : std::nullopt;
  if (!other || !value || *other == *value) {
    later = std::nullopt;
  } else {
    given_text = later->retracts ? ToString(*other) : given_text + ", then " + later->number;
    value = later->retracts ? other : std::nullopt;
  }
  const bool equal = value == gold.value && !LeavesComputation(given.text, gold.text);
  Verdict verdict = equal ? Correct(given_text, gold_text) : Wrong(given_text, gold_text);
  verdict.anchor = given.anchor;
  if (request.explain)
    verdict.explanation = {std::string(FirstBytes(given.text, kShownBytes)),
                           std::string(FirstBytes(gold.text, kShownBytes)), gold.anchor,
                           Why(request, given, gold, later, commas)};
  return verdict;
}

}  // namespace buttress
