// General categories of the code points that Unicode 15 and 16 added. PCRE2 10.42 knows Unicode 14,
// the Oniguruma of Hugging Face's tokenizers Unicode 16.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Returns the ranges of code points that are new in a general category ("Lo"), or in all categories
// of a letter ("L"), as the inside of a character class: "\x{1c89}-\x{1c89}". Empty for any other
// property.
std::string NewerCodePoints(std::string_view category);

}  // namespace buttress
