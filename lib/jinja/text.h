// Python's methods of str. All texts are UTF-8; positions and lengths count code points unless said
// otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// Without the white space at an end.
std::string_view StripTextLeft(std::string_view text);
std::string_view StripTextRight(std::string_view text);

enum class StripSide { kLeft, kRight, kBoth };

// Without the characters of `characters`, or white space if there is none, at an end or both.
std::string_view StripText(std::string_view text, const std::optional<std::string>& characters,
                           StripSide side);

// What a text between quotes in the template's source stands for.
Result<std::string> UnescapeText(std::string_view source);

// kInvalidArgument for the characters whose case is more than one character or depends on their
// neighbours.
Result<std::string> UpperText(std::string_view text);
Result<std::string> LowerText(std::string_view text);
Result<std::string> CapitalizeText(std::string_view text);

// First letters of words upper, others lower; words are runs of letters.
Result<std::string> TitleText(std::string_view text);

// At most `count` replacements, all if negative. kResourceExhausted above kJinjaTextBytesMax.
Result<std::string> ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                                std::int64_t count);

// At most `max_splits` cuts from the left, all if negative. Without a separator, cuts at runs of
// white space and drops empty parts. REQUIRES: `separator` is not empty.
std::vector<std::string> SplitText(std::string_view text,
                                   const std::optional<std::string>& separator,
                                   std::int64_t max_splits);

std::vector<std::string> SplitTextLines(std::string_view text);

}  // namespace buttress
