// Cleans an extracted answer.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Removes Markdown's stars, special tokens (<|im_end|>, </s>), nested boxes, and blanks and a full
// stop at the end. If all backslashes are doubled ("\\frac" in JSON that was escaped twice), makes
// them single.
std::string CleanAnswer(std::string_view text);

}  // namespace buttress
