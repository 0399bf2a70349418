// Locates answers in texts. All functions are linear in the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace buttress {

// Returns the text without white space at its ends.
std::string_view Trim(std::string_view text);

// Returns the first `bytes` bytes of `text`, or a few fewer so that no UTF-8 character is cut.
std::string_view FirstBytes(std::string_view text, std::size_t bytes);

// Returns the content of the last <answer>...</answer> that is closed.
std::optional<std::string_view> InAnswerTags(std::string_view text);

// Returns the content of the last \boxed{...} whose braces close.
std::optional<std::string_view> InLastBox(std::string_view text);

// Returns the text after the last `anchor`, compared without case. REQUIRES: `anchor` is lower case
// and not empty.
std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor);

}  // namespace buttress
