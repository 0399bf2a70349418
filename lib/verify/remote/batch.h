// The messages to Python functions and HTTP servers that score batches: one JSON object each way.
//
//   {"items": [{"prompt", "response", "answer", "source", "row", "truncated"}, ...]}
//   {"results": [{"score": 1.0, "correct": true}, {"error": "why it cannot be scored"}, ...]}
//
// "row" is the dataset's row, an object. If "correct" is missing, a score of at least correct_from
// is correct. A result is never read as a score of 0 by default: a score that is missing, null, not
// finite or of another type is unscorable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/verifier.h"

namespace buttress {

// Bytes that are not UTF-8 are sent as U+FFFD.
std::string EncodeBatch(std::span<const VerifyRequest> requests);

// Returns a verdict for each of `count` requests. All are unscorable with the same reason if the
// reply as a whole is malformed.
std::vector<Verdict> DecodeResults(std::string_view reply, std::size_t count, double correct_from);

// Returns `count` unscorable verdicts with the same reason.
std::vector<Verdict> AllUnscorable(std::size_t count, const std::string& reason);

}  // namespace buttress
