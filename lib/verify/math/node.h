// The tree of a mathematical answer. Values are owned; trees are small (kMaxAnswerBytes) and no
// deeper than kMaxMathDepth.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/verify/rational.h"

namespace buttress {

inline constexpr std::size_t kMaxAnswerBytes = 4096;  // of an extracted answer
inline constexpr int kMaxMathDepth = 60;

enum class MathKind {
  kNumber,     // value; decimals
  kSymbol,     // text: "x", "x_1", "pi", "e", "i", "infinity"
  kText,       // text: words in lower case, one blank between them
  kSum,        // parts
  kProduct,    // parts
  kQuotient,   // parts: numerator, denominator
  kNegate,     // parts: one
  kPower,      // parts: base, exponent
  kRoot,       // parts: radicand, index
  kFunction,   // text: name; parts: argument, and the base of log or the lower of binom
  kPlusMinus,  // text: "+-" or "-+"; parts: the second operand, behind the first if there are two
  kPercent,    // parts: one
  kDegree,     // parts: one
  kUnit,       // text: canonical unit; parts: one
  kBased,      // text: digits; parts: base
  kRatio,      // parts: a : b : ...
  kTuple,      // parts: two or more, in order. (a, b) may be an open interval as well
  kInterval,   // text: "[]", "[)", "(]"; parts: two
  kSet,        // parts, without order
  kList,       // parts, without order: an answer of several
  kUnion,      // parts, without order
  kIntersection,  // parts, without order
  kDifference,    // parts: a set, and what is taken from it
  kChoice,        // text: its letter; parts: what stands behind it
  kRelation,      // text: one letter an operator, kRelationLetters; parts: one more than those
  kMatrix,        // parts: row by row; columns
};

// In kRelation's text: = < > ≤ ≥ ≠ ≈ ∈ ≡
inline constexpr char kRelationLetters[] = "=<>lg!~em";

struct MathNode {
  MathKind kind = MathKind::kNumber;
  std::string text;
  std::vector<MathNode> parts;
  Rational value;
  int decimals = -1;  // digits behind the point of a decimal; -1: exact
  std::size_t columns = 0;
};

MathNode MakeNode(MathKind kind, std::vector<MathNode> parts, std::string text = {});
MathNode MakeNumber(const Rational& value, int decimals = -1);
MathNode MakeSymbol(std::string name);
MathNode RealLine();              // (-∞, ∞)
MathNode Negated(MathNode node);  // inside a unit: -$5 is -5 with the unit

// Whether `node` or a part of it is of `kind`.
bool Contains(const MathNode& node, MathKind kind);

// One way of writing a tree, for verdicts and for comparing what has no value.
std::string ToText(const MathNode& node);

}  // namespace buttress
