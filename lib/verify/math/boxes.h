// \boxed{...} in a text.
#pragma once

#include <string_view>
#include <vector>

namespace buttress {

// Returns the contents, from left to right, of the last \boxed{} or \fbox{} that closes and of the
// boxes before it that only commas, "and", "or" or up to three words separate from it. Linear in
// the text.
std::vector<std::string_view> LastBoxes(std::string_view text);

}  // namespace buttress
