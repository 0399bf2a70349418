// \boxed{...} in a text.
#pragma once

#include <string_view>
#include <vector>

namespace buttress {

// What stands in the last \boxed{} or \fbox{} that closes, and before it in those that only commas,
// "and", "or" or up to three words separate from it, from left to right. Linear in the text.
std::vector<std::string_view> LastBoxes(std::string_view text);

}  // namespace buttress
