// Python's methods of str. All texts are UTF-8; positions and lengths count code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Return the text without white space at its left or right end.
std::string_view StripTextLeft(std::string_view text);
std::string_view StripTextRight(std::string_view text);

enum class StripSide { kLeft, kRight, kBoth };

// Returns the text without leading or trailing `characters`, or white space if there are none.
std::string_view StripText(std::string_view text, const std::optional<std::string>& characters,
                           StripSide side);

// Resolves the escapes of a string literal in a template.
Result<std::string> UnescapeText(std::string_view source);

// Return kInvalidArgument for characters whose case has several characters or depends on their
// neighbours.
Result<std::string> UpperText(std::string_view text);
Result<std::string> LowerText(std::string_view text);
Result<std::string> CapitalizeText(std::string_view text);

// Returns the text with the first letter of each word in upper case and the others in lower case. A
// word is a run of letters.
Result<std::string> TitleText(std::string_view text);

// Makes at most `count` replacements, or all if `count` is negative. Returns kResourceExhausted if
// the result exceeds kJinjaTextBytesMax.
Result<std::string> ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                                std::int64_t count);

// Splits at most `max_splits` times from the left, or everywhere if `max_splits` is negative.
// Without a separator, splits at runs of white space and drops empty parts. REQUIRES: `separator`
// is not empty.
std::vector<std::string> SplitText(std::string_view text,
                                   const std::optional<std::string>& separator,
                                   std::int64_t max_splits);

std::vector<std::string> SplitTextLines(std::string_view text);

}  // namespace buttress
