// Tokens of a conversation, turn by turn: what the policy wrote keeps the tokens that it sampled,
// and only what others wrote is encoded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/data/text_encoder.h"

namespace buttress {

// Thread-safe.
class TurnEncoder {
 public:
  // Proves with sample conversations of several turns that the chat template lets a conversation
  // grow at its end: behind an answer that it does not change, a token of its own ends the answer,
  // and the pieces of First and Next together are the tokens of the rendered conversation. In them
  // `tools` are used and tool messages follow answers; without, user messages do.
  //
  // Thoughts are no part of the proof: a template may leave those of past answers out, or the
  // beginning of an answer that it writes itself ("<think>\n"). Here they stay in the conversation.
  //
  // kInvalidArgument names the first token that differs for a template that rewrites what is past,
  // and says what is missing for one that shows no tools. `encoder` must outlive the result.
  static Result<TurnEncoder> Create(const TextEncoder& encoder, bool tools);

  // Returns the tokens of the messages that begin a conversation, up to where the policy answers.
  // `tools` is a list of descriptions, or null.
  Result<std::vector<std::int32_t>> First(const nlohmann::ordered_json& opening,
                                          const nlohmann::ordered_json& tools) const;

  // Returns the tokens that follow an answer of the policy: the rest of what ends it in the
  // template, `messages` (user or tool), and the beginning of the next answer. `opening` and
  // `tools` are those of First. `ended` is the last token of the answer where that is a stop token,
  // which is not repeated; -1 for an answer that was cut. kInvalidArgument if the template, given
  // `messages`, writes `opening` in another way than First did.
  Result<std::vector<std::int32_t>> Next(const nlohmann::ordered_json& opening,
                                         const nlohmann::ordered_json& messages,
                                         const nlohmann::ordered_json& tools,
                                         std::int32_t ended) const;

 private:
  explicit TurnEncoder(const TextEncoder& encoder) : encoder_(&encoder) {}

  // Returns the text of Next where `ended` is -1.
  Result<std::string> NextText(const nlohmann::ordered_json& opening,
                               const nlohmann::ordered_json& messages,
                               const nlohmann::ordered_json& tools) const;

  // Proves that a conversation in which `turns` follow answers is its turns put together.
  Status Prove(const std::vector<nlohmann::ordered_json>& turns,
               const nlohmann::ordered_json& tools) const;

  const TextEncoder* encoder_;
};

}  // namespace buttress
