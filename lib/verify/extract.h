// Where a text says its answer. All linear in the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace buttress {

// Without white space at both ends.
std::string_view Trim(std::string_view text);

// The first `bytes` of `text`, or a few less so that no UTF-8 character is cut.
std::string_view FirstBytes(std::string_view text, std::size_t bytes);

// Inside the last <answer>...</answer> that is closed.
std::optional<std::string_view> InAnswerTags(std::string_view text);

// Inside the last \boxed{...} whose braces close.
std::optional<std::string_view> InLastBox(std::string_view text);

// Behind the last `anchor`, compared without case. REQUIRES: `anchor` in lower case, not empty.
std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor);

}  // namespace buttress
