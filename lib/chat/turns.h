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
  // Proves with sample conversations (user and tool messages, several turns) that the chat template
  // lets a conversation grow at its end, whatever the policy wrote. kInvalidArgument names the
  // first token in which a rendered conversation differs from its turns put together, for a
  // template that rewrites what is past. `encoder` must outlive it. `tools`: whether tools are
  // used, which a template may not know.
  static Result<TurnEncoder> Create(const TextEncoder& encoder, bool tools);

  // Returns the tokens of the first prompt, up to where the policy answers. `tools` is a list of
  // descriptions, or null.
  Result<std::vector<std::int32_t>> First(const nlohmann::ordered_json& messages,
                                          const nlohmann::ordered_json& tools) const;

  // Returns the tokens that follow an answer of the policy: the rest of what ends it in the
  // template, `messages` (user or tool), and the beginning of the next answer. `ended` is the last
  // token of the answer where that is a stop token, which is not repeated; -1 for an answer that
  // was cut.
  Result<std::vector<std::int32_t>> Next(const nlohmann::ordered_json& messages,
                                         const nlohmann::ordered_json& tools,
                                         std::int32_t ended) const;

 private:
  explicit TurnEncoder(const TextEncoder& encoder) : encoder_(&encoder) {}

  const TextEncoder* encoder_;
};

}  // namespace buttress
