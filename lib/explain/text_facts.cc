#include "lib/explain/text_facts.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Returns whether a text ends with a letter, a comma, an operator or an open bracket, after which
// more text is expected. A digit or another character may end an answer.
bool EndsMidway(std::string_view text) {
  while (!text.empty() && absl::ascii_isspace(text.back())) text.remove_suffix(1);
  if (text.empty()) return false;
  constexpr std::string_view kContinues = ",;:([{<\\+-*/=&_^";
  const char last = text.back();
  return (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z') ||
         kContinues.find(last) != std::string_view::npos;
}

// Returns the length of the first word of `text`: letters and digits, or one other character.
// REQUIRES: `text` is not empty and does not begin with a space.
std::size_t WordLength(std::string_view text) {
  std::size_t end = 1;
  if (IsWord(text[0])) {
    while (end < text.size() && IsWord(text[end])) ++end;
  } else {
    while (end < text.size() && IsContinuation(text[end])) ++end;
  }
  return end;
}

}  // namespace

TextFacts FactsOfText(std::string_view text) {
  MinHasher words;
  std::int32_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (absl::ascii_isspace(text[at])) {
      ++at;
      continue;
    }
    const std::size_t size = WordLength(text.substr(at));
    words.Add(HashText(text.substr(at, size)));
    ++count;
    at += size;
  }
  return {.digest = std::max<std::uint64_t>(1, HashText(text)),
          .words = count,
          .length = static_cast<std::int32_t>(std::min<std::size_t>(text.size(), INT32_MAX)),
          .ends_midway = EndsMidway(text),
          .sketch = words.Finish()};
}

}  // namespace buttress
