// Locates answers in texts. All functions are linear in the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

struct VerifyRequest;

// Returns the text without white space at its ends.
std::string_view Trim(std::string_view text);

// Returns the text with ASCII letters in lower case.
std::string LowerAscii(std::string_view text);

// Returns the first `bytes` bytes of `text`, or a few fewer so that no UTF-8 character is cut.
std::string_view FirstBytes(std::string_view text, std::size_t bytes);

// Bytes of a foreign text that a message quotes.
inline constexpr std::size_t kShownBytes = 200;

// Returns the content of the last <answer>...</answer> that is closed.
std::optional<std::string_view> InAnswerTags(std::string_view text);

// Returns the content of the last \boxed{...} whose braces close.
std::optional<std::string_view> InLastBox(std::string_view text);

// Returns the text after the last `anchor`, compared without case. REQUIRES: `anchor` is lower case
// and not empty.
std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor);

// Returns the text after the last "answer is" or "answer:", whichever is later.
std::optional<std::string_view> BehindAnswerIs(std::string_view text);

struct FinalAnswer {
  std::string_view text;    // without white space at both ends
  std::string_view anchor;  // "tags", "boxed", "answer is", "whole"
};

// Returns the first of these that the response contains: the last <answer>...</answer>; the last
// \boxed{...} that is closed; the rest of the line after the last "answer is" or "answer:"; the
// whole response. Returns nullopt if that part reaches the end of a truncated response.
std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request);

// Returns the content of the last closed Markdown fence (```python ... ```) whose language is in
// `languages` (lower case, separated by spaces), else of the last one without a language. Linear in
// the text.
std::optional<std::string_view> InLastFence(std::string_view text, std::string_view languages);

}  // namespace buttress
