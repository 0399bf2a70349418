// Verifier math: compares mathematical answers by meaning. equal.h defines when two answers are
// equal, and answer.h where they are found. The reference is read like a response, because it may
// be a whole solution.
#include <absl/strings/ascii.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/chain.h"
#include "lib/verify/math/equal.h"
#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/explain.h"
#include "lib/verify/math/node_reader.h"
#include "lib/verify/math/restated.h"
#include "lib/verify/math/spans.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/syntax/parser.h"
#include "lib/verify/math/words.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

struct Answer {
  std::string anchor;
  std::string source;  // verbatim from the text
  MathNode node;
  std::size_t end = 0;  // of its place in the text
  bool near = false;    // the text calls it an approximation
};

// Returns whether the text has a comma between digits.
bool HoldsComma(std::string_view text) {
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == ',' && digit(i - 1) && digit(i + 1)) return true;
  }
  return false;
}

// Removes repeated members of several boxes: "2x, or x + x" is one answer.
void DropRepeated(MathNode& list, MathComparison& how) {
  if (list.kind != MathKind::kList) return;
  std::vector<MathNode> kept;
  for (MathNode& part : list.parts) {
    const auto same = [&](const MathNode& other) {
      return CompareMath(part, other, how) == Sameness::kSame;
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(part));
  }
  list.parts = std::move(kept);
}

// Returns whether words are part of the node: a text with a number, one of several words in a list,
// "Total = 5", "5 (in dollars)".
bool HoldsProse(const MathNode& node, bool in_list) {
  const auto is_text = [](const MathNode& part) { return part.kind == MathKind::kText; };
  switch (node.kind) {
    case MathKind::kText:
      if (IsMonth(node.text.substr(0, node.text.find(' ')))) return false;
      return node.text.find_first_of("0123456789") != std::string::npos ||
             (in_list && node.text.find(' ') != std::string::npos);
    case MathKind::kList:
      return std::ranges::any_of(node.parts,
                                 [](const MathNode& part) { return HoldsProse(part, true); });
    case MathKind::kRelation:
    case MathKind::kRatio:
    case MathKind::kNegate:
      if (is_text(node.parts.front())) return true;
      break;
    case MathKind::kProduct:
      if (std::ranges::any_of(node.parts, is_text)) return true;
      break;
    case MathKind::kSum:  // "3 two-digit primes"
      return std::ranges::any_of(node.parts,
                                 [](const MathNode& part) { return HoldsProse(part, false); });
    case MathKind::kPower:
    case MathKind::kQuotient:
      break;
    default:
      return false;
  }
  return HoldsProse(node.parts.front(), false);  // "just a + b"
}

// Returns whether the candidate is a sentence around a number. Such a sentence is not the answer
// itself, because the number may be.
bool IsSentence(const AnswerCandidate& candidate, const MathNode& node) {
  return candidate.anchor != "boxed" && HoldsProse(node, false);
}

std::optional<Answer> ReadAnswer(std::string_view text, bool truncated,
                                 const std::vector<std::string>& anchors, CommaReading commas,
                                 MathComparison& how) {
  std::vector<AnswerCandidate> candidates = FindAnswers(text, truncated, anchors, commas);
  for (AnswerCandidate& candidate : candidates) {
    if (candidate.refused) continue;
    Result<MathNode> node = ReadNode(candidate.text, commas);
    if (!node.ok() || IsSentence(candidate, *node)) continue;
    if (candidate.joined) DropRepeated(*node, how);
    return Answer{std::move(candidate.anchor), std::move(candidate.text), *std::move(node),
                  candidate.end, candidate.near};
  }
  if (candidates.empty() || candidates.front().refused ||
      candidates.front().text.size() > kMaxAnswerBytes)
    return std::nullopt;
  AnswerCandidate& first = candidates.front();
  MathNode node = AsText(first.text);
  return Answer{std::move(first.anchor), std::move(first.text), std::move(node), first.end};
}

constexpr std::string_view kIntegerLetters = "kmn";

bool IsIntegerLetter(const MathNode& node) {
  return node.kind == MathKind::kSymbol && node.text.size() == 1 &&
         kIntegerLetters.find(node.text[0]) != std::string_view::npos;
}

bool HoldsPi(const MathNode& node) {
  return (node.kind == MathKind::kSymbol && node.text == "pi") ||
         std::ranges::any_of(node.parts, HoldsPi);
}

void RenameIntegers(MathNode& node) {
  if (IsIntegerLetter(node)) node.text = "k";
  for (MathNode& part : node.parts) RenameIntegers(part);
}

// Returns n pi, or x = n pi with n ∈ Z, with the name k for its free integer, whichever it has.
MathNode WithFreeInteger(MathNode node) {
  if (!HoldsPi(node)) return node;
  const auto declares = [](const MathNode& part) {
    return part.kind == MathKind::kRelation && part.text == "e" && IsIntegerLetter(part.parts[0]) &&
           ToText(part.parts[1]) == "Z";
  };
  if (node.kind == MathKind::kList && node.parts.size() == 2 && declares(node.parts[1]))
    node = MathNode(node.parts[0]);
  RenameIntegers(node);
  return node;
}

// Whether the text of one answer stands as bare letters in the other: \text{AM} and AM.
bool IsSameWord(const Answer& text, const Answer& other) {
  return text.node.kind == MathKind::kText && other.source.size() > 1 &&
         std::ranges::all_of(other.source, absl::ascii_isalpha) &&
         LowerAscii(other.source) == text.node.text;
}

// Tries the other reading of a comma that could separate thousands, "100,200" as two numbers. That
// "3,14" is 3.14 is for the run to say (run.reward.math.decimal): it may also be two answers.
Sameness CompareReadings(const Answer& given, const Answer& gold, std::string_view prompt,
                         MathComparison& how) {
  const Sameness first = CompareMath(given.node, gold.node, how);
  if (first == Sameness::kSame || !how.lenient()) return first;
  if (CompareMath(WithFreeInteger(given.node), WithFreeInteger(gold.node), how) == Sameness::kSame)
    return Sameness::kSame;
  if (IsSameWord(given, gold) || IsSameWord(gold, given)) return Sameness::kSame;
  if (const MathNode* last = LastMember(given.node, {given.anchor, given.source, prompt}, how)) {
    if (CompareMath(*last, gold.node, how) == Sameness::kSame) return Sameness::kSame;
  }
  const auto same = [&](const Answer& read, const Answer& other, bool is_given) {
    if (!HoldsComma(read.source)) return false;
    const Result<MathNode> node = ParseMath(read.source, CommaReading::kSeparator);
    if (!node.ok()) return false;
    const Sameness one =
        is_given ? CompareMath(*node, other.node, how) : CompareMath(other.node, *node, how);
    return one == Sameness::kSame;
  };
  return same(given, gold, true) || same(gold, given, false) ? Sameness::kSame : first;
}

std::string Shown(const MathNode& node) {
  return std::string(FirstBytes(ToText(node), kShownBytes));
}

// Returns `anchors` followed by all other anchors, because a reference may be a bare answer
// regardless of the format that responses must have.
std::vector<std::string> WithTheRest(std::vector<std::string> anchors) {
  for (const std::string_view anchor : kMathAnchors) {
    if (std::find(anchors.begin(), anchors.end(), anchor) == anchors.end())
      anchors.emplace_back(anchor);
  }
  return anchors;
}

// Returns the number that the response gives for the answer behind `given`, if it is another one.
// Both have to be numbers and nothing else; mathematics and words are not compared.
std::optional<Restatement> FindContradiction(std::string_view response, bool truncated,
                                             const std::vector<std::string>& anchors,
                                             const Answer& given, CommaReading commas,
                                             MathComparison& how) {
  const bool first =
      given.anchor == "boxed" || given.anchor == "final answer is" || given.anchor == "####";
  if (!first || !PlainNumber(given.source)) return std::nullopt;
  auto later = FindRestatement(response, truncated, anchors, given.end);
  if (!later) return std::nullopt;
  const auto number = ReadNode(later->number, commas);
  if (!number.ok() || CompareMath(given.node, *number, how) == Sameness::kSame ||
      CompareMath(*number, given.node, how) == Sameness::kSame)
    return std::nullopt;
  return later;
}

// Returns whether the budget of steps is too small for the reference, whatever the response.
bool IsTooMuch(const Answer& gold, const MathComparison& how) {
  if (how.steps_left >= 0) return false;
  MathComparison alone{.mode = how.mode};
  CompareMath(gold.node, gold.node, alone);
  return alone.steps_left < 0;
}

bool HasDecimals(const MathNode& node) {
  return node.decimals >= 0 || std::ranges::any_of(node.parts, HasDecimals);
}

// Whether the node is x ≈ a.
bool IsApproximation(const MathNode& node) {
  return node.kind == MathKind::kRelation && node.text == "~" &&
         node.parts[0].kind == MathKind::kSymbol;
}

// Returns whether the response gives a value without decimals as an approximation: "about 5". A
// decimal says at which digit it is rounded.
bool IsTooVague(const Answer& given, const Answer& gold) {
  const bool near = given.near || IsApproximation(given.node);
  return near && !gold.near && !IsApproximation(gold.node) && !HasDecimals(given.node);
}

// Returns whether the response leaves to the verifier what it was asked to compute.
bool IsRestated(const Answer& given, const Answer& gold, std::string_view prompt,
                const MathComparison& how) {
  return (!how.lenient() && LeavesComputation(given.source, gold.source)) ||
         RepeatsQuestion(given.source, gold.source, prompt);
}

Verdict Compare(const Answer& given, const Answer& gold, std::string_view prompt,
                MathComparison& how) {
  switch (CompareReadings(given, gold, prompt, how)) {
    case Sameness::kSame:
      return Correct(Shown(given.node), Shown(gold.node));
    case Sameness::kDifferent:
      if (IsTooMuch(gold, how)) return Unscorable("answer: takes too many steps to compare");
      return Wrong(Shown(given.node), Shown(gold.node));
    case Sameness::kUndecided:
      break;
  }
  Verdict verdict =
      Unscorable("answer: cannot be computed, and the response's is written differently");
  verdict.given = Shown(given.node);
  verdict.gold = Shown(gold.node);
  return verdict;
}

// What a judgement read.
struct Readings {
  std::optional<Answer> gold;
  std::optional<Answer> given;
  std::optional<Restatement> other;  // that contradicts `given`
};

Verdict Judge(const VerifyRequest& request, const MathConfig& config, Readings& read) {
  const std::vector<std::string>& anchors = config.anchors;
  const CommaReading commas = CommasOf(config.decimal);
  MathComparison how{.mode = config.mode};
  read.gold = ReadAnswer(WithoutDrawings(request.answer), /*truncated=*/false, WithTheRest(anchors),
                         commas, how);
  if (!read.gold) return Unscorable("answer: none found in the reference");
  const std::string gold = Shown(read.gold->node);
  const std::string response = WithoutDrawings(request.response);
  read.given = ReadAnswer(response, request.truncated, anchors, commas, how);
  if (!read.given) return Wrong("", gold);
  if (auto later =
          FindContradiction(response, request.truncated, anchors, *read.given, commas, how)) {
    if (!later->retracts) {
      read.other = std::move(later);
      return Wrong(Shown(read.given->node) + ", then " + read.other->number, gold);
    }
    read.given = Answer{std::move(later->anchor), later->number, *ReadNode(later->number, commas)};
  }
  const bool refused = IsTooVague(*read.given, *read.gold) ||
                       IsRestated(*read.given, *read.gold, request.prompt, how);
  Verdict verdict = refused ? Wrong(Shown(read.given->node), gold)
                            : Compare(*read.given, *read.gold, request.prompt, how);
  verdict.anchor = read.given->anchor;
  return verdict;
}

std::string Why(const VerifyRequest& request, const MathConfig& config, const Readings& read,
                const Verdict& verdict) {
  if (verdict.outcome == Outcome::kUnscorable) return verdict.unscorable_reason;
  const Answer& gold = *read.gold;
  if (!read.given)
    return WhyNoAnswer(request.response, request.truncated, config.anchors,
                       CommasOf(config.decimal));
  const Answer& given = *read.given;
  if (read.other)
    return fmt::format("the response gives {} and later, by '{}', {}", given.source,
                       read.other->anchor, read.other->number);
  MathComparison how{.mode = config.mode};
  if (verdict.outcome == Outcome::kCorrect) {
    if (CompareMath(given.node, gold.node, how) == Sameness::kSame)
      return WhySame(given.node, gold.node);
    if (IsSameWord(given, gold) || IsSameWord(gold, given)) return "both are the same word";
    return HoldsComma(given.source + " " + gold.source)
               ? "both agree in another reading of its comma"
               : "both agree in the last member of the response's chain";
  }
  if (IsTooVague(given, gold)) return "the response calls its answer an approximation";
  if (IsRestated(given, gold, request.prompt, how))
    return RepeatsQuestion(given.source, gold.source, request.prompt)
               ? "the response restates the question"
               : "the response leaves the computation to the verifier, in mode strict";
  if (Contradicts(given.node, how)) return "the response's chain of equations is false";
  if (given.anchor != "boxed" && RationalValue(gold.node) && !RationalValue(given.node)) {
    std::string why = WhyLastNotStated(request.response, config.anchors, CommasOf(config.decimal));
    if (!why.empty()) return why;
  }
  return WhyDifferent(given.source, given.node, gold.node, how);
}

}  // namespace

Verdict JudgeMath(const VerifyRequest& request, const RewardConfig& config) {
  Readings read;
  Verdict verdict = Judge(request, config.math, read);
  if (!request.explain) return verdict;
  Explanation& explanation = verdict.explanation;
  if (read.given) explanation.given_text = FirstBytes(read.given->source, kShownBytes);
  if (read.gold) {
    explanation.gold_text = FirstBytes(read.gold->source, kShownBytes);
    explanation.gold_anchor = read.gold->anchor;
  }
  explanation.why = Why(request, config.math, read, verdict);
  return verdict;
}

}  // namespace buttress
