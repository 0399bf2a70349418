// The tree of a mathematical answer. Nodes own their parts. Trees come from at most kMaxAnswerBytes
// of text and are no deeper than kMaxMathDepth.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/verify/rational.h"

namespace buttress {

inline constexpr std::size_t kMaxAnswerBytes = 4096;  // of an extracted answer
inline constexpr int kMaxMathDepth = 60;

enum class MathKind {
  kNumber,        // value; decimals
  kSymbol,        // text: "x", "x_1", "pi", "e", "i", "infinity"
  kText,          // text: words in lower case, separated by one blank
  kSum,           // parts
  kProduct,       // parts
  kQuotient,      // parts: numerator, denominator
  kNegate,        // parts: one
  kPower,         // parts: base, exponent
  kRoot,          // parts: radicand, index
  kFunction,      // text: name; parts: argument, and the base of log or the lower of binom
  kPlusMinus,     // text: "+-" or "-+"; parts: the operand, or both operands
  kPercent,       // parts: one
  kDegree,        // parts: one
  kUnit,          // text: canonical unit; parts: one
  kBased,         // text: digits; parts: base
  kRatio,         // parts: a : b : ...; text: "to" for "a to b", which may be a range, else empty
  kTuple,         // parts: two or more, in order; (a, b) may also be an open interval
  kInterval,      // text: "[]", "[)", "(]"; parts: two
  kSet,           // parts, unordered
  kList,          // parts, unordered: an answer with several values
  kUnion,         // parts, unordered
  kIntersection,  // parts, unordered
  kDifference,    // parts: a set, and the set that is subtracted
  kChoice,        // text: its letter; parts: the text after it
  kRelation,      // text: one of kRelationLetters per operator; parts: one more than operators
  kMatrix,        // parts: by rows; columns
};

// The letters in the text of a kRelation, in the order = < > ≤ ≥ ≠ ≈ ∈ ≡.
inline constexpr char kRelationLetters[] = "=<>lg!~em";

struct MathNode {
  MathKind kind = MathKind::kNumber;
  std::string text;
  std::vector<MathNode> parts;
  Rational value;
  int decimals = -1;  // digits after the decimal point; -1: exact
  std::size_t columns = 0;
};

MathNode MakeNode(MathKind kind, std::vector<MathNode> parts, std::string text = {});
MathNode MakeNumber(const Rational& value, int decimals = -1);
MathNode MakeSymbol(std::string name);
MathNode RealLine();              // (-∞, ∞)
MathNode Negated(MathNode node);  // negates inside a unit: -$5 is -5 with the unit

// Returns whether `node` or any part of it is of `kind`.
bool Contains(const MathNode& node, MathKind kind);

// Returns a canonical text of a tree, for verdicts and for comparing nodes without a value.
std::string ToText(const MathNode& node);

}  // namespace buttress
