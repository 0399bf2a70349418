#include "lib/verify/extract.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <string>

namespace buttress {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

constexpr std::string_view kFence = "```";

bool HasWord(std::string_view words, std::string_view word) {
  return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = absl::ascii_tolower(c);
  return lower;
}

std::string_view FirstBytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor) {
  const auto same = [](char a, char b) { return absl::ascii_tolower(a) == b; };
  const char last = anchor.back();
  const char upper = last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last;
  for (std::size_t end = text.size(); end >= anchor.size(); --end) {
    if (text[end - 1] != last && text[end - 1] != upper) continue;
    const std::string_view here = text.substr(end - anchor.size(), anchor.size());
    if (std::equal(here.begin(), here.end(), anchor.begin(), same)) return text.substr(end);
  }
  return std::nullopt;
}

std::optional<std::string_view> InLastFence(std::string_view text, std::string_view languages) {
  const std::vector<std::string_view> fences = InFences(text, languages);
  if (fences.empty()) return std::nullopt;
  return fences.back();
}

std::vector<std::string_view> InFences(std::string_view text, std::string_view languages) {
  std::vector<std::string_view> named;
  std::vector<std::string_view> plain;
  for (std::size_t open = text.find(kFence); open != std::string_view::npos;) {
    const std::size_t line_end = text.find('\n', open);
    if (line_end == std::string_view::npos) break;
    const std::size_t close = text.find(kFence, line_end);
    if (close == std::string_view::npos) break;
    const std::string language =
        LowerAscii(Trim(text.substr(open + kFence.size(), line_end - open - kFence.size())));
    const std::string_view inside = text.substr(line_end + 1, close - line_end - 1);
    if (language.empty()) plain.push_back(inside);
    if (!language.empty() && HasWord(languages, language)) named.push_back(inside);
    open = text.find(kFence, close + kFence.size());
  }
  return named.empty() ? plain : named;
}

}  // namespace buttress
