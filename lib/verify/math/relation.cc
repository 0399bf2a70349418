// Relations about names: definitions, and the intervals of inequalities.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/verify/math/equal.h"

namespace buttress {
namespace {

bool IsSymbol(const MathNode& node) { return node.kind == MathKind::kSymbol; }

MathNode IntervalOf(MathNode low, char open, MathNode high, char close) {
  if (open == '(' && close == ')')
    return MakeNode(MathKind::kTuple, {std::move(low), std::move(high)});
  return MakeNode(MathKind::kInterval, {std::move(low), std::move(high)}, {open, close});
}

}  // namespace

bool IsMathName(const MathNode& node) {
  if (IsSymbol(node)) return true;
  return node.kind == MathKind::kProduct && node.parts.size() == 2 && IsSymbol(node.parts[0]) &&
         IsSymbol(node.parts[1]) &&
         std::string_view("fghPQ").find(node.parts[0].text[0]) != std::string_view::npos;
}

bool IsDefinition(const MathNode& node) {
  return node.kind == MathKind::kRelation && (node.text == "=" || node.text == "e") &&
         IsMathName(node.parts[0]);
}

bool IsInfinite(const MathNode& node) {
  if (node.kind == MathKind::kNegate) return IsInfinite(node.parts[0]);
  return IsSymbol(node) && node.text == "infinity";
}

MathNode Ascending(const MathNode& relation) {
  const auto descends = [](char letter) { return letter == '>' || letter == 'g'; };
  if (!std::all_of(relation.text.begin(), relation.text.end(), descends)) return relation;
  MathNode reversed = relation;
  std::reverse(reversed.parts.begin(), reversed.parts.end());
  std::reverse(reversed.text.begin(), reversed.text.end());
  for (char& letter : reversed.text) letter = letter == '>' ? '<' : 'l';
  return reversed;
}

std::optional<MathNode> ToInterval(const MathNode& node) {
  if (node.kind != MathKind::kRelation || node.text.find_first_not_of("<>lg") != std::string::npos)
    return std::nullopt;
  const MathNode relation = Ascending(node);
  if (relation.text.find_first_of(">g") != std::string::npos) return std::nullopt;
  const auto low_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? '(' : '['; };
  const auto high_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? ')' : ']'; };
  const std::vector<MathNode>& parts = relation.parts;
  const MathNode infinity = MakeSymbol("infinity");
  if (parts.size() == 3 && IsMathName(parts[1]))
    return IntervalOf(parts[0], low_bracket(0), parts[2], high_bracket(1));
  if (parts.size() != 2) return std::nullopt;
  if (IsMathName(parts[0]))
    return IntervalOf(MakeNode(MathKind::kNegate, {infinity}), '(', parts[1], high_bracket(0));
  if (IsMathName(parts[1])) return IntervalOf(parts[0], low_bracket(0), infinity, ')');
  return std::nullopt;
}

}  // namespace buttress
