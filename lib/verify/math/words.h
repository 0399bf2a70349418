// The words that answers hold: units, numbers in letters, functions, commands of LaTeX.
#pragma once

#include <optional>
#include <string_view>

#include "lib/verify/rational.h"

namespace buttress {

// "centimeters" -> "cm". None: a noun that counts things ("students", "ways"), which says nothing
// about the value.
std::optional<std::string_view> CanonicalUnit(std::string_view word);

// "dollar", "euro": units that may stand before the number.
bool IsCurrency(std::string_view canonical_unit);

// "four" -> 4, "twenty" -> 20.
std::optional<int> NumberWord(std::string_view word);

// "million" -> 1000000, "thirds" -> 1/3: what multiplies the number before it.
std::optional<Rational> MultiplierWord(std::string_view word);

// "squared", "less", "not": words that are no noun behind a number.
bool IsOperatorWord(std::string_view word);

// "²" -> '2' and raised; "₂" -> '2' and not.
std::optional<char> RaisedOrLowered(std::string_view utf8, bool& raised);

// "sin", "log", ...: those that evaluate.cc knows, of one argument.
bool IsFunctionName(std::string_view name);

// What a LaTeX command stands for, as plain text: "\\cdot" -> "*", "\\leq" -> "<=", "\\," -> "".
// None: it has arguments or is unknown.
std::optional<std::string_view> PlainCommand(std::string_view name);

// What a Unicode character stands for: "−" -> "-", "π" -> "\\pi ".
std::optional<std::string_view> PlainCharacter(std::string_view utf8);

// "alpha", ...: commands that are symbols of their own name.
bool IsGreek(std::string_view name);

}  // namespace buttress
