// Verifier math: compares mathematical answers by meaning. equal.h defines when two answers are
// equal, and answer.h where they are found. The reference is read like a response, because it may
// be a whole solution.
#include <algorithm>
#include <optional>
#include <string>

#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/equal.h"
#include "lib/verify/math/forms.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/syntax/parser.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

struct Answer {
  std::string anchor;
  std::string source;  // verbatim from the text
  MathNode node;
  std::size_t end = 0;  // of its place in the text
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

// Returns a text node for an answer that no grammar reads. It equals answers with the same text.
MathNode AsText(std::string_view source) {
  std::string text;
  for (const char c : source) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '$') text.push_back(c);
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

// Returns whether the candidate is a sentence with a number. Such a sentence is not the answer
// itself, because the number may be.
bool IsSentence(const AnswerCandidate& candidate, const MathNode& node) {
  return candidate.anchor != "boxed" && node.kind == MathKind::kText &&
         node.text.find_first_of("0123456789") != std::string::npos;
}

// Parses a choice, a numeral with letters, or an expression.
Result<MathNode> ReadNode(std::string_view text, CommaReading commas) {
  if (auto numeral = ReadBasedNumeral(text)) return *std::move(numeral);
  if (auto number = ReadSpacedNumber(text)) return *std::move(number);
  const auto choice = ReadChoice(text);
  if (!choice) return ParseMath(text, commas);
  MathNode letter = MakeSymbol(std::string(1, choice->letter));
  if (choice->text.empty()) return letter;
  Result<MathNode> behind = ParseMath(choice->text, commas);
  return MakeNode(MathKind::kChoice, {behind.ok() ? *std::move(behind) : AsText(choice->text)},
                  std::move(letter.text));
}

std::optional<Answer> ReadAnswer(std::string_view text, bool truncated,
                                 const std::vector<std::string>& anchors, MathComparison& how) {
  std::vector<AnswerCandidate> candidates = FindAnswers(text, truncated, anchors);
  for (AnswerCandidate& candidate : candidates) {
    Result<MathNode> node = ReadNode(candidate.text, CommaReading::kThousands);
    if (!node.ok() || IsSentence(candidate, *node)) continue;
    if (candidate.joined) DropRepeated(*node, how);
    return Answer{std::move(candidate.anchor), std::move(candidate.text), *std::move(node),
                  candidate.end};
  }
  if (candidates.empty() || candidates.front().text.size() > kMaxAnswerBytes) return std::nullopt;
  AnswerCandidate& first = candidates.front();
  MathNode node = AsText(first.text);
  return Answer{std::move(first.anchor), std::move(first.text), std::move(node), first.end};
}

// Returns the other readings of a comma between digits: "3,14" as 3.14, and "100,200" as two
// numbers. A comma that separates thousands is not a decimal point: 1,234 is not 1.234.
Sameness CompareReadings(const Answer& given, const Answer& gold, MathComparison& how) {
  const Sameness first = CompareMath(given.node, gold.node, how);
  if (first == Sameness::kSame || !how.lenient()) return first;
  const auto same = [&](const Answer& read, const Answer& other, bool is_given) {
    if (!HoldsComma(read.source)) return false;
    for (const CommaReading commas : {CommaReading::kSeparator, CommaReading::kDecimal}) {
      const bool decimal = commas == CommaReading::kDecimal;
      if (decimal && (other.node.kind == MathKind::kList || read.node.kind != MathKind::kList))
        continue;
      const Result<MathNode> node = ParseMath(read.source, commas);
      if (!node.ok()) continue;
      const Sameness one =
          is_given ? CompareMath(*node, other.node, how) : CompareMath(other.node, *node, how);
      if (one == Sameness::kSame) return true;
    }
    return false;
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
std::optional<Restatement> FindContradiction(const VerifyRequest& request,
                                             const std::vector<std::string>& anchors,
                                             const Answer& given, MathComparison& how) {
  const bool first =
      given.anchor == "boxed" || given.anchor == "final answer is" || given.anchor == "####";
  if (!first || !PlainNumber(given.source)) return std::nullopt;
  auto later = FindRestatement(request.response, request.truncated, anchors, given.end);
  if (!later) return std::nullopt;
  const auto number = ReadNode(later->number, CommaReading::kThousands);
  if (!number.ok() || CompareMath(given.node, *number, how) == Sameness::kSame ||
      CompareMath(*number, given.node, how) == Sameness::kSame)
    return std::nullopt;
  return later;
}

class Math : public Verifier {
 public:
  explicit Math(const MathConfig& config)
      : mode_(config.mode), anchors_(config.anchors), gold_anchors_(WithTheRest(config.anchors)) {}

  Verdict Verify(const VerifyRequest& request) const override {
    MathComparison how{.mode = mode_};
    const auto gold = ReadAnswer(request.answer, /*truncated=*/false, gold_anchors_, how);
    if (!gold) return Unscorable("answer: none found in the reference");
    auto given = ReadAnswer(request.response, request.truncated, anchors_, how);
    if (!given) return Wrong("", Shown(gold->node));
    if (auto later = FindContradiction(request, anchors_, *given, how)) {
      if (!later->retracts)
        return Wrong(Shown(given->node) + ", then " + later->number, Shown(gold->node));
      given = Answer{std::move(later->anchor), later->number,
                     *ReadNode(later->number, CommaReading::kThousands), 0};
    }
    Verdict verdict = Judge(*given, *gold, how);
    verdict.anchor = given->anchor;
    return verdict;
  }

 private:
  // Returns whether the budget of steps is too small for the reference, whatever the response.
  static bool IsTooMuch(const Answer& gold, const MathComparison& how) {
    if (how.steps_left >= 0) return false;
    MathComparison alone{.mode = how.mode};
    CompareMath(gold.node, gold.node, alone);
    return alone.steps_left < 0;
  }

  static Verdict Judge(const Answer& given, const Answer& gold, MathComparison& how) {
    switch (CompareReadings(given, gold, how)) {
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

  const MathMode mode_;
  const std::vector<std::string> anchors_;
  const std::vector<std::string> gold_anchors_;
};

}  // namespace

std::unique_ptr<Verifier> MakeMath(const RewardConfig& config) {
  return std::make_unique<Math>(config.math);
}

}  // namespace buttress
