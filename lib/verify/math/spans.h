// The mathematics in a text of prose: what stands between dollars or brackets or in an environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace buttress {

struct MathSpan {
  std::string_view text;
  bool rows = false;  // of an environment as align*; its value is the one behind the last "="
};

// Returns the last expression between dollars, \( \) or \[ \], or the last environment of aligned
// rows, without the full stop behind it. A closing dollar follows its expression directly if that
// has no command, and no digit follows it, which excludes "$5 and $6".
std::optional<MathSpan> LastSpan(std::string_view text);

// Returns the text from the first expression between dollars or brackets to the last one: "$x = 1$
// and $y = 2$".
std::optional<std::string_view> Mathematics(std::string_view text);

// Returns what stands behind the last "=" or "\equiv" of the last row, outside of braces and
// environments and without "\pmod{5}".
std::optional<std::string_view> LastOfChain(std::string_view mathematics);

// Returns whether the last row says what a value is less or greater than: "y &> 5".
bool EndsInBound(std::string_view rows);

// Returns whether the text between dollars is an equation, an inequality or the like.
bool IsEquation(std::string_view mathematics);

// Returns whether the left side of an equation is made of values of functions: p(x) + q(x) = ...
bool IsOfFunctions(std::string_view equation);

// Removes drawings, [asy] ... [/asy], whose numbers are no answers.
std::string WithoutDrawings(std::string_view text);

// Returns the text without a remark at its end, which stands in brackets or in a paragraph that
// begins with "Note" or "Alternatively", unless the remark takes back what stands before it.
std::string_view WithoutRemark(std::string_view text);

}  // namespace buttress
