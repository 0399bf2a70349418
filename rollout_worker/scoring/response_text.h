// The text of a completion, as a verifier judges it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// Returns the text of `tokens`, which ended for `reason`, without special tokens. What ended them
// is not in it: neither a stop token of `sampling` nor, without include_stop, a stop string with
// what follows it in the last token. Errors are those of Tokenizer::Decode.
Result<std::string> ResponseText(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                                 FinishReason reason, const SamplingParams& sampling);

}  // namespace buttress
