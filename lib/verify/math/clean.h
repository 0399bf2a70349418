// An extracted answer without what surrounds it.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Without Markdown's stars, special tokens (<|im_end|>, </s>), nested boxes and the blanks and full
// stop at its end; with single backslashes where all are doubled ("\\frac" in JSON that was escaped
// twice).
std::string CleanAnswer(std::string_view text);

}  // namespace buttress
