// Texts and chats to tokens, as transformers makes them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/data/json_rows.h"
#include "lib/jinja/chat_template.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// How a row is encoded.
struct RowEncoding {
  bool add_special_tokens = true;     // to a text, as tokenizer(text) does
  bool add_generation_prompt = true;  // to messages: the beginning of the answer
};

// Thread-safe.
class TextEncoder {
 public:
  // `tokenizer` must outlive the encoder. kInvalidArgument for a chat template that does not parse.
  static Result<TextEncoder> Create(const Tokenizer& tokenizer);

  bool has_chat_template() const { return chat_template_.has_value(); }

  // Returns the tokens of tokenizer(text).
  Result<std::vector<std::int32_t>> EncodeText(std::string_view text) const;

  // Returns the tokens of apply_chat_template(messages). kInvalidArgument if the model has no chat
  // template, for messages without role or content, and with what the template raises.
  Result<std::vector<std::int32_t>> EncodeMessages(const nlohmann::ordered_json& messages,
                                                   bool add_generation_prompt) const;

  // Encodes the field "text" or "messages" of a row, whichever it has.
  Result<std::vector<std::int32_t>> EncodeRow(const JsonRow& row,
                                              const RowEncoding& encoding) const;

 private:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const Tokenizer* tokenizer_;
  std::optional<ChatTemplate> chat_template_;  // absent if the model has none
  std::string eos_token_;
};

}  // namespace buttress
