// Parts of texts. All functions are linear in the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// Returns the text without white space at its ends.
std::string_view Trim(std::string_view text);

// Returns the text with ASCII letters in lower case.
std::string LowerAscii(std::string_view text);

// Returns the first `bytes` bytes of `text`, or a few fewer so that no UTF-8 character is cut.
std::string_view FirstBytes(std::string_view text, std::size_t bytes);

// Bytes of a foreign text that a message quotes.
inline constexpr std::size_t kShownBytes = 200;

// Returns the text after the last `anchor`, compared without case. REQUIRES: `anchor` is lower case
// and not empty.
std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor);

// Returns the content of the last closed Markdown fence (```python ... ```) whose language is in
// `languages` (lower case, separated by spaces), else of the last one without a language. Linear in
// the text.
std::optional<std::string_view> InLastFence(std::string_view text, std::string_view languages);

// Returns the contents of all such fences in order: those of a language, else those without one.
std::vector<std::string_view> InFences(std::string_view text, std::string_view languages);

}  // namespace buttress
