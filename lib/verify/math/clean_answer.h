// The text of an answer without what only formats it.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Removes Markdown's stars, special tokens (<|im_end|>, </s>), an explanation (", i.e. 50%"), and
// blanks and a full stop at the end. If all backslashes are doubled ("\\frac" in JSON that was
// escaped twice), makes them single. Linear in the text.
std::string CleanAnswer(std::string_view written);

}  // namespace buttress
