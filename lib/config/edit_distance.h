#pragma once

#include <cstddef>
#include <string_view>

namespace buttress {

// Levenshtein distance: the least number of inserted, removed and replaced bytes. Pure.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace buttress
