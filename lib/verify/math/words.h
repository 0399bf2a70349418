// The words that answers hold: units, numbers in letters, functions, commands of LaTeX.
#pragma once

#include <optional>
#include <string_view>

namespace buttress {

// "centimeters" -> "cm". None: a noun that counts things ("students", "ways"), which says nothing
// about the value.
std::optional<std::string_view> CanonicalUnit(std::string_view word);

// "four" -> 4.
std::optional<int> NumberWord(std::string_view word);

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
