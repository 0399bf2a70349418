// The counts that instructions need. All functions are linear in the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// Returns the text with ASCII letters in lower case.
std::string LowerAscii(std::string_view text);

// Returns the parts between occurrences of `separator`, including empty ones.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator);

// Find the matches of an RE2 pattern (UTF-8; ^ and $ match at lines), without overlap. REQUIRES:
// `pattern` compiles.
std::int64_t CountMatches(std::string_view text, const std::string& pattern);
std::vector<std::string_view> FindMatches(std::string_view text, const std::string& pattern);

std::int64_t CountWords(std::string_view text);      // runs of letters, digits and _
std::int64_t CountSentences(std::string_view text);  // an unfinished sentence counts
std::int64_t CountCapitalWords(std::string_view text);

}  // namespace buttress
