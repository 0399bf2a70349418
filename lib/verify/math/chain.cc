#include "lib/verify/math/chain.h"

#include <re2/re2.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/spans.h"

namespace buttress {
namespace {

// Whether the equation has the form x + 5 = 12.
bool AddsToUnknown(const MathNode& equation) {
  const MathNode& sum = equation.parts.front();
  return equation.parts.size() == 2 && sum.kind == MathKind::kSum && sum.parts.size() == 2 &&
         sum.parts[0].kind == MathKind::kSymbol && !HasFreeSymbols(sum.parts[1]) &&
         !HasFreeSymbols(equation.parts.back());
}

// Whether the node is a multiple of an unknown: 2a.
bool IsMultiple(const MathNode& node) {
  return node.kind == MathKind::kProduct && node.parts.size() == 2 &&
         !HasFreeSymbols(node.parts[0]) && node.parts[1].kind == MathKind::kSymbol;
}

// Whether the node has a part that a number is not compared with: 5 cm, 60 degrees, 213_8, words.
bool HasUnit(const MathNode& node) {
  constexpr MathKind kIncomparable[] = {MathKind::kUnit, MathKind::kDegree, MathKind::kPercent,
                                        MathKind::kBased, MathKind::kText};
  return std::ranges::any_of(kIncomparable, [&](MathKind kind) { return Contains(node, kind); });
}

// The text with * for \ast.
std::string WithStars(std::string_view text) {
  static const LazyRE2 kAst = {R"(\\ast\b)"};
  std::string plain(text);
  RE2::GlobalReplace(&plain, *kAst, "*");
  return plain;
}

// Whether the prompt says what * is: "a * b = a^b + b^a", "P * Q means".
bool DefinesStar(std::string_view prompt) {
  static const LazyRE2 kPair = {R"(\b[A-Za-z][ $]*\*[ $]*[A-Za-z]\b[ $]*(=?))"};
  static const LazyRE2 kWord = {R"((?i)\b(defin|operation|mean|denote|represent|let ))"};
  const std::string text = WithStars(prompt);
  std::string sign;
  return RE2::PartialMatch(text, *kPair, &sign) &&
         (!sign.empty() || RE2::PartialMatch(text, *kWord));
}

// Returns for each member of the chain whether it has a * that the prompt defines.
std::vector<bool> Defined(const MathNode& node, const ChainText& text) {
  std::vector<bool> defined(node.parts.size());
  const std::string source = WithStars(text.source);
  if (std::ranges::count(source, '=') + 1 != static_cast<std::ptrdiff_t>(defined.size()) ||
      source.find('*') == std::string::npos || !DefinesStar(text.prompt))
    return defined;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < defined.size(); ++i) {
    const std::size_t end = std::min(source.find('=', begin), source.size());
    defined[i] = source.find('*', begin) < end;
    begin = end + 1;
  }
  return defined;
}

bool IsEquations(const MathNode& node, std::string_view signs) {
  return node.kind == MathKind::kRelation &&
         node.text.find_first_not_of(signs) == std::string::npos;
}

}  // namespace

const MathNode* LastMember(const MathNode& node, const ChainText& text, MathComparison& how) {
  if (text.anchor == "boxed" || !IsEquations(node, "=m")) return nullptr;
  if ((text.anchor == "whole" && AddsToUnknown(node)) ||
      (node.parts.size() == 2 && IsMultiple(node.parts.front())))
    return nullptr;
  const MathNode& last = node.parts.back();
  if (node.text.find('m') != std::string::npos)
    return IsMathName(node.parts.end()[-2]) ? nullptr : &last;
  const bool closed = !HasFreeSymbols(last);
  const auto agrees = [&](const MathNode& part) {
    if (closed && (HasFreeSymbols(part) || HasUnit(part))) return true;
    if (part.kind != last.kind &&
        (last.kind == MathKind::kMatrix || Contains(part, MathKind::kMatrix)))
      return true;  // not computed
    const Sameness sameness = CompareMath(part, last, how);
    return closed ? sameness != Sameness::kDifferent : sameness == Sameness::kSame;
  };
  if (!closed && (IsOfFunctions(text.source) || agrees(node.parts.end()[-2]))) return &last;
  const std::vector<bool> defined = Defined(node, text);
  for (std::size_t i = 0; i + 1 < node.parts.size(); ++i)
    if (!defined[i] && !agrees(node.parts[i])) return nullptr;
  return &last;
}

bool Contradicts(const MathNode& chain, MathComparison& how) {
  if (!IsEquations(chain, "=") || HasFreeSymbols(chain.parts.back())) return false;
  return std::any_of(chain.parts.begin(), chain.parts.end() - 1, [&](const MathNode& part) {
    return !HasFreeSymbols(part) &&
           CompareMath(part, chain.parts.back(), how) == Sameness::kDifferent;
  });
}

}  // namespace buttress
