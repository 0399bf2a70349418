#include "lib/verify/instructions/text_counts.h"

#include <re2/re2.h>

#include "lib/base/report/check.h"
#include "lib/verify/extract.h"

namespace buttress {

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

std::vector<std::string_view> FindMatches(std::string_view text, const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 compiled("(?m)(" + pattern + ")", options);
  BUTTRESS_CHECK(compiled.ok(), compiled.error());
  re2::StringPiece rest(text.data(), text.size());
  std::vector<std::string_view> matches;
  re2::StringPiece match;
  while (RE2::FindAndConsume(&rest, compiled, &match)) {
    matches.emplace_back(match.data(), match.size());
    if (!match.empty()) continue;
    if (rest.empty()) break;
    rest.remove_prefix(1);
  }
  return matches;
}

std::int64_t CountMatches(std::string_view text, const std::string& pattern) {
  return static_cast<std::int64_t>(FindMatches(text, pattern).size());
}

std::int64_t CountWords(std::string_view text) { return CountMatches(text, "[\\pL\\pM\\pN_]+"); }

std::int64_t CountSentences(std::string_view text) {
  const std::string_view whole = Trim(text);
  if (whole.empty()) return 0;
  const std::int64_t ends = CountMatches(whole, "[.!?]+[\"')\\]*_]*(?:\\s+|\\z)");
  const std::size_t last = whole.find_last_not_of("\"')]*_");
  const bool open = last == std::string_view::npos ||
                    std::string_view(".!?").find(whole[last]) == std::string_view::npos;
  return ends + (open ? 1 : 0);
}

std::int64_t CountCapitalWords(std::string_view text) {
  std::int64_t count = 0;
  for (const std::string_view word : FindMatches(text, "[\\pL\\pM\\pN_'-]+")) {
    count += CountMatches(word, "\\p{Ll}") == 0 && CountMatches(word, "\\p{Lu}") > 0 ? 1 : 0;
  }
  return count;
}

}  // namespace buttress
