// The turns of the assistant in a conversation, as sequences for supervised training.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/data/text_encoder.h"
#include "lib/experience/types.h"

namespace buttress {

// A sequence, and which of its tokens are trained.
struct SftExample {
  std::vector<std::int32_t> prompt;    // before the first trained token; not empty
  std::vector<std::int32_t> response;  // from there to the last trained token
  std::vector<TokenSpan> trained;      // of the response, in order; empty: all of it

  std::int64_t tokens() const { return std::ssize(prompt) + std::ssize(response); }

  std::int64_t trained_tokens() const;
};

// What a conversation becomes.
struct SftChat {
  std::vector<SftExample> examples;
  std::int64_t turns = 0;    // of the assistant that are trained
  std::int64_t unended = 0;  // those of them that have none of the end tokens
};

// Finds the tokens of the assistant's turns by rendering prefixes: the turn of message i is what
// the chat template writes for the messages up to i, behind what it writes for those before i with
// the beginning of an answer. It is trained up to its last token of `ends`, which a sampler stops
// at.
//
// Turns share a sequence as long as each rendering begins with the one before. A template that
// writes an earlier turn otherwise once another follows, as that of Qwen3 which leaves out the
// thoughts, makes a sequence for each turn, with the context that the turn has in use.
//
// Messages before `first` are context, also those of the assistant. kInvalidArgument names the
// message: none of the assistant, one with nothing before it, or one that the template writes
// otherwise than its own beginning of an answer promises.
Result<SftChat> ExamplesOfChat(const TextEncoder& encoder, const nlohmann::ordered_json& messages,
                               const nlohmann::ordered_json& tools, std::size_t first,
                               std::span<const std::int32_t> ends);

}  // namespace buttress
