// Locates the final answer of a response, for verifiers that compare words or letters.
#pragma once

#include <optional>
#include <string_view>

#include "lib/verify/verifier.h"

namespace buttress {

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
