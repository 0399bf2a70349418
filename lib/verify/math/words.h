// The words of answers: units, numbers in letters, functions, commands of LaTeX.
#pragma once

#include <optional>
#include <string_view>

#include "lib/verify/rational.h"

namespace buttress {

// Maps "centimeters" to "cm". Returns nullopt for a noun that counts things ("students", "ways")
// and does not affect the value.
std::optional<std::string_view> CanonicalUnit(std::string_view word);

// Returns whether the unit may precede the number: "dollar", "euro".
bool IsCurrency(std::string_view canonical_unit);

// The size of a unit in the smallest of its dimension: 60 seconds for "minute", 100 cents for
// "dollar".
struct UnitSize {
  std::string_view dimension;
  long size;

  // Returns the factor from this unit to the other.
  Rational To(const UnitSize& other) const { return Rational(size) / Rational(other.size); }
};

std::optional<UnitSize> SizeOf(std::string_view canonical_unit);

// Returns whether the word names a month: "june".
bool IsMonth(std::string_view word);

// Maps "four" to 4 and "twenty" to 20.
std::optional<int> NumberWord(std::string_view word);

// Returns the factor for the number before the word: 1000000 for "million", 1/3 for "thirds".
std::optional<Rational> MultiplierWord(std::string_view word);

// Returns whether the word is not a noun after a number: "squared", "less", "not", "maybe".
bool IsOperatorWord(std::string_view word);

// Returns '2' for "²" with `raised` true, and '2' for "₂" with `raised` false.
std::optional<char> RaisedOrLowered(std::string_view utf8, bool& raised);

// Returns whether the name is a function of one argument that evaluate.cc implements: "sin", "log".
bool IsFunctionName(std::string_view name);

// Returns the plain text of a LaTeX command: "*" for "\\cdot", "<=" for "\\leq", "" for "\\,".
// Returns nullopt for an unknown command or one with arguments.
std::optional<std::string_view> PlainCommand(std::string_view name);

// Returns the plain text of a Unicode character: "-" for "−", "\\pi " for "π".
std::optional<std::string_view> PlainCharacter(std::string_view utf8);

// Returns whether the command is a symbol with its own name: "alpha", ...
bool IsGreek(std::string_view name);

}  // namespace buttress
