// Why math, number and choice judge as they do, in words. Only VerifyRequest::explain asks for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/math/equal.h"
#include "lib/verify/math/syntax/lexer.h"
#include "lib/verify/prose/prose.h"

namespace buttress {

// Returns why the sentence around `value`, which lies in `text`, does not state it: "the response
// hedges between 5 and 6". Returns "" if it does.
std::string WhyNotStated(std::string_view text, std::string_view value,
                         ProseValues values = ProseValues::kNumbers);

// Returns WhyNotStated of the last number where the anchors place the answer; "" if there is none.
std::string WhyLastNotStated(std::string_view text, const std::vector<std::string>& anchors,
                             CommaReading commas);

// Returns why FindAnswers finds no answer in the text.
std::string WhyNoAnswer(std::string_view text, bool truncated,
                        const std::vector<std::string>& anchors, CommaReading commas);

// Return why two answers are the same, and why they are not. `source`: the text of the given one.
std::string WhySame(const MathNode& given, const MathNode& gold);
std::string WhyDifferent(std::string_view source, const MathNode& given, const MathNode& gold,
                         MathComparison how);

}  // namespace buttress
