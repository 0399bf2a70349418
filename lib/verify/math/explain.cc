#include "lib/verify/math/explain.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "lib/verify/anchors.h"
#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/node_reader.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/prose/assertion.h"
#include "lib/verify/prose/prose_words.h"
#include "lib/verify/prose/sequel.h"

namespace buttress {
namespace {

// Returns "5 and 6": the values of the sentence around `value`.
std::string ValuesAround(const ProseAround& around, std::string_view value) {
  std::string values;
  const auto add = [&](std::string_view text) {
    values += (values.empty() ? "" : " and ") + std::string(text);
  };
  const auto add_all = [&](const std::vector<ProseToken>& tokens) {
    for (const ProseToken& token : tokens) {
      if (token.kind == ProseToken::Kind::kNumber) add(token.text);
    }
  };
  add_all(around.left);
  add(value);
  add_all(around.right);
  return values;
}

// Returns whether a word or sign of the sentence is one of the classes, of `words` or `sign`.
bool Holds(const ProseAround& around, unsigned classes, std::string_view sign,
           std::initializer_list<std::string_view> words) {
  const auto is_one = [&](const ProseToken& token) {
    if (token.kind == ProseToken::Kind::kSign) return token.text == sign;
    return token.kind == ProseToken::Kind::kWord &&
           ((ProseClasses(token.text) & classes) != 0 ||
            std::ranges::find(words, token.text) != words.end());
  };
  return std::ranges::any_of(around.left, is_one) || std::ranges::any_of(around.right, is_one);
}

std::string_view KindName(const MathNode& node) {
  switch (node.kind) {
    case MathKind::kTuple:
      return "a tuple or open interval";
    case MathKind::kInterval:
      return "an interval";
    case MathKind::kSet:
      return "a set";
    case MathKind::kList:
      return "a list";
    case MathKind::kUnion:
    case MathKind::kIntersection:
    case MathKind::kDifference:
      return "an operation on sets";
    case MathKind::kRelation:
      return "an equation or inequality";
    case MathKind::kMatrix:
      return "a matrix";
    case MathKind::kRatio:
      return "a ratio";
    case MathKind::kChoice:
      return "a choice with its text";
    case MathKind::kText:
      return "a text";
    default:
      return HasFreeSymbols(node) ? "an expression with variables" : "a number";
  }
}

bool HasMembers(const MathNode& node) {
  const std::string_view name = KindName(node);
  return name != "a text" && name != "a number" && name != "an expression with variables" &&
         node.kind != MathKind::kChoice;
}

// Returns why two answers of one kind with members differ.
std::string WhyMembersDiffer(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (given.parts.size() != gold.parts.size())
    return fmt::format("the reference has {} members, the response {}", gold.parts.size(),
                       given.parts.size());
  if (given.kind == MathKind::kInterval && given.text != gold.text)
    return fmt::format("the reference has the brackets {}, the response {}", gold.text, given.text);
  if (given.kind == MathKind::kRelation && given.text != gold.text) return "the relations differ";
  const auto as_list = [](const MathNode& node) { return MakeNode(MathKind::kList, node.parts); };
  if (CompareMath(as_list(given), as_list(gold), how) == Sameness::kSame)
    return "the members are the same in another order";
  for (std::size_t i = 0; i < gold.parts.size(); ++i) {
    if (CompareMath(given.parts[i], gold.parts[i], how) != Sameness::kSame)
      return fmt::format("member {} is {} in the reference, {} in the response", i + 1,
                         ToText(gold.parts[i]), ToText(given.parts[i]));
  }
  return "the members differ";
}

const MathNode* UnitOf(const MathNode& node) {
  return node.kind == MathKind::kUnit ? &node : nullptr;
}

// Returns where the answer is searched in the text: the sentence behind the first anchor that the
// text contains, else all of it.
std::string_view Searched(std::string_view text, const std::vector<std::string>& anchors) {
  for (const std::string& anchor : anchors) {
    const auto behind = anchor == "final answer is" ? BehindFinalAnswer(text)
                        : anchor == "####"          ? BehindHashes(text)
                        : anchor == "answer:"       ? BehindAnswer(text)
                                                    : std::nullopt;
    if (behind) return Sentence(*behind);
  }
  return text;
}

std::string WhyNotKept(Sequel sequel, std::string_view value) {
  if (sequel == Sequel::kRetracts) return fmt::format("the response takes {} back", value);
  if (sequel == Sequel::kGoesOn) return fmt::format("the response goes on after {}", value);
  return "";
}

}  // namespace

std::string WhyNotStated(std::string_view text, std::string_view value, ProseValues values) {
  const ProseAround around = SentenceAround(text, value, values);
  const std::string all = ValuesAround(around, value);
  switch (ReadAssertion(text, value, /*equation=*/false, values)) {
    case Assertion::kStated:
      return values == ProseValues::kNumbers ? WhyNotKept(ReadSequel(text, value), value) : "";
    case Assertion::kNear:
      return fmt::format("the response calls {} an approximation", value);
    case Assertion::kDenied:
      return fmt::format("the response denies {}", value);
    case Assertion::kOpen:
      return all == value ? fmt::format("the response doubts {}", value)
                          : fmt::format("the response hedges between {}", all);
    case Assertion::kNone:
      break;
  }
  if (around.asks) return fmt::format("the response asks about {}", value);
  const bool bounds =
      Holds(around, kComparisonWord, "<",
            {"least", "most", "minimum", "maximum", "exceeds", "below", "above", "under", "over"});
  if (bounds) return fmt::format("the response bounds or compares {}", value);
  if (Holds(around, kConditionWord, "", {"when"}))
    return fmt::format("the response gives {} under a condition", value);
  if (Holds(around, kOperationWord, "*", {"times", "of"}) || all != value)
    return fmt::format("the response computes with {}", value);
  return fmt::format("the response does not state {} as its answer", value);
}

std::string WhyLastNotStated(std::string_view text, const std::vector<std::string>& anchors,
                             CommaReading commas) {
  if (const auto tagged = InAnswerTags(text); tagged && !tagged->empty()) text = *tagged;
  const std::string_view searched = Searched(text, anchors);
  std::optional<std::string_view> last;
  for (std::size_t at = 0; const auto number = NumberAt(searched, at, at, commas);) last = number;
  return last ? WhyNotStated(text, *last) : "";
}

std::string WhyNoAnswer(std::string_view text, bool truncated,
                        const std::vector<std::string>& anchors, CommaReading commas) {
  text = WithoutThought(text);
  if (Trim(text).empty()) return "the response is empty";
  const bool boxed = std::ranges::find(anchors, "boxed") != anchors.end();
  if (boxed && EndsInOpenBox(text)) return "unclosed \\boxed";
  if (!boxed && InLastBox(text)) return "run.reward.math.anchors does not contain boxed";
  if (std::string why = WhyLastNotStated(text, anchors, commas); !why.empty()) return why;
  if (truncated) return "the token limit cut the response before or in its answer";
  return std::ranges::find(anchors, "last expression") != anchors.end()
             ? "the response states no answer"
             : fmt::format("the response has none of run.reward.math.anchors ({})",
                           fmt::join(anchors, ", "));
}

std::string WhySame(const MathNode& given, const MathNode& gold) {
  if (ToText(given) == ToText(gold)) return "both are read alike";
  MathComparison strict{.mode = MathMode::kStrict};
  if (CompareMath(given, gold, strict) == Sameness::kSame) return "both have the same value";
  if (UnitOf(given) != nullptr && UnitOf(gold) == nullptr)
    return "the unit of the response is ignored, which mode strict would not";
  if (UnitOf(gold) != nullptr && UnitOf(given) == nullptr)
    return "the unit of the reference may be missing, which mode strict would not allow";
  return "both have the same meaning in mode lenient, but not in strict";
}

std::string WhyDifferent(std::string_view source, const MathNode& given, const MathNode& gold,
                         MathComparison how) {
  if (source.empty()) return "the response's box is empty";
  how.steps_left = kMaxMathSteps;
  const Result<MathNode> decimal = ReadNode(source, CommaReading::kDecimal);
  if (decimal.ok() && ToText(*decimal) != ToText(given) &&
      CompareMath(*decimal, gold, how) == Sameness::kSame)
    return "the decimal comma is ambiguous: set run.reward.math.decimal: comma";
  MathComparison lenient{.mode = MathMode::kLenient};
  if (!how.lenient() && CompareMath(given, gold, lenient) == Sameness::kSame)
    return "equal in mode lenient only (run.reward.math.mode)";
  if (given.kind == MathKind::kText && gold.kind != MathKind::kText)
    return "the response's answer is read as words, not as mathematics";
  const MathNode* const unit = UnitOf(given);
  const MathNode* const other = UnitOf(gold);
  if (unit != nullptr && other != nullptr && unit->text != other->text)
    return fmt::format("the units {} and {} differ", other->text, unit->text);
  if (KindName(given) != KindName(gold))
    return fmt::format("the reference is {}, the response {}", KindName(gold), KindName(given));
  if (HasMembers(gold)) return WhyMembersDiffer(given, gold, how);
  if (given.decimals > 0 && gold.decimals < 0 && gold.kind != MathKind::kText &&
      IsNear(gold, given, how))
    return "a rounded value needs three significant digits or more";
  return gold.kind == MathKind::kText ? "the words differ" : "the values differ";
}

}  // namespace buttress
