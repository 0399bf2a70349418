// Steps of the readers of answers.
#pragma once

#include <string_view>

namespace buttress {

// Returns the text without white space at its ends.
inline std::string_view WithoutSpace(std::string_view text) {
  constexpr std::string_view kSpaces = " \n\t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Takes `prefix` off the front of `text` and returns whether it was there.
inline bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace buttress
