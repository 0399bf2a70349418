#include "lib/verify/math/syntax/node.h"

#include <algorithm>
#include <utility>

namespace buttress {
namespace {

std::string Join(const std::vector<MathNode>& parts, std::string_view separator) {
  std::string text;
  for (const MathNode& part : parts) {
    if (!text.empty()) text += separator;
    text += ToText(part);
  }
  return text;
}

std::string RelationText(const MathNode& node) {
  std::string text = ToText(node.parts.front());
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    const char letter = node.text[i - 1];
    switch (letter) {
      case 'l':
        text += " <= ";
        break;
      case 'g':
        text += " >= ";
        break;
      case '!':
        text += " != ";
        break;
      case 'e':
        text += " in ";
        break;
      case 'm':
        text += " == ";
        break;
      default:
        text += std::string(" ") + letter + " ";
    }
    text += ToText(node.parts[i]);
  }
  return text;
}

std::string MatrixText(const MathNode& node) {
  std::string text = "matrix[";
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    if (i > 0) text += i % node.columns == 0 ? "; " : ", ";
    text += ToText(node.parts[i]);
  }
  return text + "]";
}

}  // namespace

MathNode MakeNode(MathKind kind, std::vector<MathNode> parts, std::string text) {
  MathNode node;
  node.kind = kind;
  node.parts = std::move(parts);
  node.text = std::move(text);
  return node;
}

MathNode MakeNumber(const Rational& value, int decimals) {
  MathNode node;
  node.value = value;
  node.decimals = decimals;
  return node;
}

MathNode MakeSymbol(std::string name) { return MakeNode(MathKind::kSymbol, {}, std::move(name)); }

MathNode RealLine() {
  const MathNode infinity = MakeSymbol("infinity");
  return MakeNode(MathKind::kTuple, {MakeNode(MathKind::kNegate, {infinity}), infinity});
}

MathNode Negated(MathNode node) {
  if (node.kind != MathKind::kUnit) return MakeNode(MathKind::kNegate, {std::move(node)});
  node.parts[0] = MakeNode(MathKind::kNegate, {std::move(node.parts[0])});
  return node;
}

bool Contains(const MathNode& node, MathKind kind) {
  const auto has = [kind](const MathNode& part) { return Contains(part, kind); };
  return node.kind == kind || std::any_of(node.parts.begin(), node.parts.end(), has);
}

std::string ToText(const MathNode& node) {
  const auto part = [&](std::size_t i) { return ToText(node.parts[i]); };
  switch (node.kind) {
    case MathKind::kNumber:
      return ToString(node.value);
    case MathKind::kSymbol:
    case MathKind::kText:
      return node.text;
    case MathKind::kSum:
      return "(" + Join(node.parts, " + ") + ")";
    case MathKind::kProduct:
      return Join(node.parts, "*");
    case MathKind::kQuotient:
      return "(" + Join(node.parts, "/") + ")";
    case MathKind::kNegate:
      return "-" + part(0);
    case MathKind::kPower:
      return "(" + Join(node.parts, "^") + ")";
    case MathKind::kRoot:
      return "root(" + Join(node.parts, ", ") + ")";
    case MathKind::kFunction:
      return node.text + "(" + Join(node.parts, ", ") + ")";
    case MathKind::kPlusMinus:
      return "(" + Join(node.parts, " ") + " " + node.text + ")";
    case MathKind::kPercent:
      return part(0) + "%";
    case MathKind::kDegree:
      return part(0) + " degree";
    case MathKind::kUnit:
      return part(0) + " " + node.text;
    case MathKind::kBased:
      return node.text + "_" + part(0);
    case MathKind::kRatio:
      return Join(node.parts, ":");
    case MathKind::kTuple:
      return "(" + Join(node.parts, ", ") + ")";
    case MathKind::kInterval:
      return node.text.front() + Join(node.parts, ", ") + node.text.back();
    case MathKind::kSet:
      return "{" + Join(node.parts, ", ") + "}";
    case MathKind::kList:
      return Join(node.parts, ", ");
    case MathKind::kUnion:
      return Join(node.parts, " union ");
    case MathKind::kIntersection:
      return Join(node.parts, " intersection ");
    case MathKind::kDifference:
      return Join(node.parts, " without ");
    case MathKind::kChoice:
      return node.text + ": " + part(0);
    case MathKind::kRelation:
      return RelationText(node);
    case MathKind::kMatrix:
      return MatrixText(node);
  }
  return {};
}

}  // namespace buttress
