// What the tokens of a conversation say, message by message.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace buttress {

struct SampleMessage {
  std::string role;
  std::string content;
};

// Returns the messages in `tokens`, which a chat template wrote: of the families of ChatML (Qwen),
// Llama, Gemma, GLM and Mistral, by their special tokens. Those tokens, the names of roles and the
// white space around a message are of none; neither is the beginning of the answer that follows.
// Text under no role is of "environment".
std::vector<SampleMessage> WrittenMessages(std::span<const std::int32_t> tokens,
                                           const Tokenizer& tokenizer);

// Returns the message in `tokens`, an answer that was sampled: all but the special token that ends
// it. Special tokens within it show, because the policy wrote them.
SampleMessage SampledMessage(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer);

}  // namespace buttress
