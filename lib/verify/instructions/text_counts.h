// What instructions count in a response. All linear.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// ASCII letters in lower case; other bytes as they are.
std::string LowerAscii(std::string_view text);

// Parts between occurrences of `separator`, empty ones included.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator);

// Matches of an RE2 pattern (UTF-8, ^ and $ at lines), without overlap. REQUIRES: `pattern`
// compiles.
std::int64_t CountMatches(std::string_view text, const std::string& pattern);
std::vector<std::string_view> FindMatches(std::string_view text, const std::string& pattern);

std::int64_t CountWords(std::string_view text);      // runs of letters, digits and _
std::int64_t CountSentences(std::string_view text);  // a text without an end is one
std::int64_t CountCapitalWords(std::string_view text);

}  // namespace buttress
