// The part of a response that is meant as its answer, for verifiers that compare words or letters.
#pragma once

#include <optional>
#include <string_view>

#include "lib/verify/verifier.h"

namespace buttress {

struct FinalAnswer {
  std::string_view text;    // without white space at both ends
  std::string_view anchor;  // "tags", "boxed", "answer is", "whole"
};

// The first of these that the response holds: the last <answer>...</answer>; the last \boxed{...}
// that is closed; the rest of the line behind the last "answer is" or "answer:"; the whole
// response. Nothing if that touches the end of a truncated response.
std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request);

// Inside the last Markdown fence (```python ... ```) that is closed; of several, the last whose
// language is in `languages` (lower case, separated by spaces), else the last without one. Linear.
std::optional<std::string_view> InLastFence(std::string_view text, std::string_view languages);

}  // namespace buttress
