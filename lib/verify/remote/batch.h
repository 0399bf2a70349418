// The messages to Python functions and HTTP servers that score groups: one JSON object each way.
//
//   {"items": [{"prompt", "response", "answer", "source", "row", "truncated"}, ...]}
//   {"results": [{"score": 1.0, "correct": true}, {"error": "why it cannot be scored"},
//                {"not_applicable": true}, ...]}
//
// "prompt" is the rendered text, "row" the dataset's row, an object with the prompt as the dataset
// has it. Python functions also get "token_ids" of an item, and "state": {"global_step",
// "max_steps"}, where they are known. {"not_applicable": true} says that there is nothing to score
// in this row, which is no failure. If "correct" is missing, a score of at least correct_from
// is correct. A result is never read as a score of 0 by default: a score that is missing, null, not
// finite or of another type is unscorable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/verifier.h"

namespace buttress {

struct BatchFields {
  bool token_ids = false;
  bool state = false;
};

// Bytes that are not UTF-8 are sent as U+FFFD.
std::string EncodeBatch(std::span<const VerifyRequest> requests, BatchFields fields = {});

// Returns a verdict for each of `count` requests. All are unscorable with the same reason if the
// reply as a whole is malformed.
std::vector<Verdict> DecodeResults(std::string_view reply, std::size_t count, double correct_from);

// Returns `count` unscorable verdicts with the same reason.
std::vector<Verdict> AllUnscorable(std::size_t count, const std::string& reason);

}  // namespace buttress
