// Whether the sentence around a value states it as the answer.
#pragma once

#include <string_view>

#include "lib/verify/prose/prose.h"

namespace buttress {

enum class Assertion {
  kStated,
  kNear,    // stated as an approximation: "about 5"
  kDenied,  // "is not 5"
  kOpen,    // one of several, or doubted: "5 or 6", "maybe 5"
  kNone,    // the sentence says something else: "at least 5", "5 times 3", "divisible by 5"
};

// Reads the sentence around `span`, which lies in `text`. A value is the answer only where the
// grammar of an answer puts it:
//
//   before it  the begin of the clause, an equals sign, "so", or a verb of result ("is", "makes",
//              "costs us", "adds up to", "comes to a total of"), with words between that leave a
//              value as it is ("exactly", "the number"). In "not 6 but 5" the "but" counts.
//   behind it  the end of the clause, a unit, a phrase ("in total", "because ..."), "is the
//              answer", or what it is not ("not 6", "rather than 6")
//
// Neither the clause before the value denies or conditions it, nor the sentence doubts it, asks, or
// offers another value ("or"). `equation`: the span is a statement of its own, as x = 5 is, before
// which any words may stand. `values`: what the other values of the sentence are.
Assertion ReadAssertion(std::string_view text, std::string_view span, bool equation = false,
                        ProseValues values = ProseValues::kNumbers);

}  // namespace buttress
