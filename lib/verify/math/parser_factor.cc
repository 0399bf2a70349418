// Factors:
//
//   unary    = { "-" | "+" | "±" } power
//   power    = primary { "^" exponent | "!" | "%" | "°" | "_" primary }
//   primary  = number | symbol ["_" primary] | text | "(" items ")" | "{" items "}" | "|" sum "|" |
//   command
#include <algorithm>
#include <utility>

#include "lib/verify/math/math_parser.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

std::string Subscript(const MathNode& node) {
  std::string text = ToText(node);
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  return text;
}

}  // namespace

Result<MathNode> MathParser::Unary() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  if (Skip("+")) return Unary();
  if (Skip("-")) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode operand, Unary());
    return MakeNode(MathKind::kNegate, {std::move(operand)});
  }
  if (IsMark("±") || IsMark("∓")) {
    const bool plus_first = IsMark("±");
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode operand, Unary());
    return MakeNode(MathKind::kPlusMinus, {std::move(operand)}, plus_first ? "+-" : "-+");
  }
  return Power();
}

Result<MathNode> MathParser::Power() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  BUTTRESS_ASSIGN_OR_RETURN(MathNode node, Primary());
  return Postfix(std::move(node));
}

bool MathParser::IsDegree() const {
  return (IsMark("^") && IsMark("°", 1)) ||
         (IsMark("^") && IsMark("{", 1) && IsMark("°", 2) && IsMark("}", 3));
}

Result<MathNode> MathParser::Postfix(MathNode node) {
  for (int count = 0; count < kMaxMathDepth; ++count) {
    if (IsDegree()) {
      at_ += IsMark("°", 1) ? 2 : 4;
      node = MakeNode(MathKind::kDegree, {std::move(node)});
    } else if (Skip("°")) {
      node = MakeNode(MathKind::kDegree, {std::move(node)});
    } else if (Skip("%")) {
      node = MakeNode(MathKind::kPercent, {std::move(node)});
    } else if (Skip("!")) {
      node = MakeNode(MathKind::kFunction, {std::move(node)}, "factorial");
    } else if (Skip("^")) {
      BUTTRESS_ASSIGN_OR_RETURN(node, Exponent(std::move(node)));
    } else if (node.kind == MathKind::kNumber && Skip("_")) {
      BUTTRESS_ASSIGN_OR_RETURN(MathNode base, Primary());
      node = MakeNode(MathKind::kBased, {std::move(base)}, ToText(node));
    } else {
      return node;
    }
  }
  return InvalidArgument("too many signs behind one factor");
}

// Right-associative: the exponent may be a power itself.
Result<MathNode> MathParser::Exponent(MathNode base) {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode exponent, IsMark("-") || IsMark("+") ? Unary() : Power());
  return MakeNode(MathKind::kPower, {std::move(base), std::move(exponent)});
}

Result<MathNode> MathParser::Primary() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  switch (Peek().kind) {
    case MathTokenKind::kNumber: {
      const MathToken& token = Peek();
      ++at_;
      return MakeNumber(token.value, token.decimals);
    }
    case MathTokenKind::kSymbol:
      return Symbol();
    case MathTokenKind::kWord:
      return Text();
    case MathTokenKind::kCommand:
      return Command();
    case MathTokenKind::kMark:
      break;
    case MathTokenKind::kEnd:
      return Unexpected();
  }
  if (IsMark("(") || IsMark("[")) return Brackets();
  if (Skip("{")) return Braces("}");
  if (Skip("\\{")) return Braces("\\}");
  if (Skip("|")) return Enclosed("|", "abs");
  if (Skip("⌊")) return Enclosed("⌋", "floor");
  if (Skip("⌈")) return Enclosed("⌉", "ceil");
  if (Skip("∅")) return MakeNode(MathKind::kSet, {});
  if (Skip("$")) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode amount, Unary());
    return MakeNode(MathKind::kUnit, {std::move(amount)}, "dollar");
  }
  return Unexpected();
}

Result<MathNode> MathParser::Symbol() {
  std::string name = Peek().text;
  ++at_;
  while (Skip("'")) name += "'";
  if (Skip("_")) {
    BUTTRESS_ASSIGN_OR_RETURN(const MathNode subscript, Primary());
    name += "_" + Subscript(subscript);
  }
  return MakeSymbol(std::move(name));
}

Result<MathNode> MathParser::Text() {
  if (const auto number = NumberWord(Peek().text)) {
    ++at_;
    return MakeNumber(*number);
  }
  std::string text;
  const auto continues = [&] {
    const MathTokenKind kind = Peek().kind;
    return kind == MathTokenKind::kNumber || kind == MathTokenKind::kSymbol ||
           (kind == MathTokenKind::kWord && !IsConjunction());
  };
  if (IsConjunction()) return Unexpected();
  while (continues()) {
    if (!text.empty()) text += " ";
    text += Peek().text;
    ++at_;
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

Result<std::vector<MathNode>> MathParser::Items() {
  std::vector<MathNode> items;
  do {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode item, Relation());
    items.push_back(std::move(item));
  } while (SkipSeparators());
  return items;
}

Result<MathNode> MathParser::Brackets() {
  const bool round = IsMark("(");
  ++at_;
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathNode> items, Items());
  if (!IsMark(")") && !IsMark("]")) return Unexpected();
  const bool round_close = IsMark(")");
  ++at_;
  if (items.size() == 2 && !(round && round_close)) {
    const std::string brackets = {round ? '(' : '[', round_close ? ')' : ']'};
    return MakeNode(MathKind::kInterval, std::move(items), brackets);
  }
  if (round != round_close) return InvalidArgument("brackets do not match");
  if (items.size() == 1) return std::move(items.front());
  return MakeNode(MathKind::kTuple, std::move(items));
}

Result<MathNode> MathParser::Braces(std::string_view close) {
  if (Skip(close)) return MakeNode(MathKind::kSet, {});
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathNode> items, Items());
  if (!Skip(close)) return Unexpected();
  if (close == "}" && items.size() == 1) return std::move(items.front());
  return MakeNode(MathKind::kSet, std::move(items));
}

Result<MathNode> MathParser::Enclosed(std::string_view close, std::string_view function) {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode inside, Sum());
  if (!Skip(close)) return Unexpected();
  return MakeNode(MathKind::kFunction, {std::move(inside)}, std::string(function));
}

}  // namespace buttress
