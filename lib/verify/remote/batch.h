// What leaves this process to be scored, and what comes back: one JSON object each way, the same
// for Python functions and for HTTP.
//
//   {"items": [{"prompt", "response", "answer", "source", "row", "truncated"}, ...]}
//   {"results": [{"score": 1.0, "correct": true}, {"error": "why it cannot be scored"}, ...]}
//
// "row" is the dataset's row, an object. "correct" may be missing: a score of correct_from or more
// is correct then. No result is ever read as a score of 0: what is missing, null, not finite or of
// another type is unscorable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/verifier.h"

namespace buttress {

// Bytes that are no UTF-8 travel as U+FFFD.
std::string EncodeBatch(std::span<const VerifyRequest> requests);

// A verdict for each of `count` requests; all unscorable with one reason where the reply as a whole
// is no answer.
std::vector<Verdict> DecodeResults(std::string_view reply, std::size_t count, double correct_from);

// `count` times unscorable.
std::vector<Verdict> AllUnscorable(std::size_t count, const std::string& reason);

}  // namespace buttress
