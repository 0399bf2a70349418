#include "lib/verify/math/syntax/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>
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

// How the parts of a kind are joined.
struct Form {
  MathKind kind;
  std::string_view before;
  std::string_view between;
  std::string_view after;
};

constexpr Form kForms[] = {
    {MathKind::kSum, "(", " + ", ")"},
    {MathKind::kProduct, "", "*", ""},
    {MathKind::kQuotient, "(", "/", ")"},
    {MathKind::kPower, "(", "^", ")"},
    {MathKind::kRoot, "root(", ", ", ")"},
    {MathKind::kRatio, "", ":", ""},
    {MathKind::kTuple, "(", ", ", ")"},
    {MathKind::kSet, "{", ", ", "}"},
    {MathKind::kList, "", ", ", ""},
    {MathKind::kUnion, "", " union ", ""},
    {MathKind::kIntersection, "", " intersection ", ""},
    {MathKind::kDifference, "", " without ", ""},
};

std::string RelationText(const MathNode& node) {
  // In the order of kRelationLetters.
  constexpr std::string_view kOperators[] = {"=", "<", ">", "<=", ">=", "!=", "~", "in", "=="};
  std::string text = ToText(node.parts.front());
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    const std::size_t letter = std::string_view(kRelationLetters).find(node.text[i - 1]);
    text += fmt::format(" {} {}", kOperators[letter], ToText(node.parts[i]));
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
  if (const auto* const form = std::ranges::find(kForms, node.kind, &Form::kind);
      form != std::end(kForms))
    return fmt::format("{}{}{}", form->before, Join(node.parts, form->between), form->after);
  const auto part = [&](std::size_t i) { return ToText(node.parts[i]); };
  switch (node.kind) {
    case MathKind::kNumber:
      return ToString(node.value);
    case MathKind::kNegate:
      return "-" + part(0);
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
    case MathKind::kInterval:
      return node.text.front() + Join(node.parts, ", ") + node.text.back();
    case MathKind::kChoice:
      return node.text + ": " + part(0);
    case MathKind::kRelation:
      return RelationText(node);
    case MathKind::kMatrix:
      return MatrixText(node);
    default:
      return node.text;  // of symbols and texts
  }
}

}  // namespace buttress
