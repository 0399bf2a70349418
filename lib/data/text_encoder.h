// Texts and chats to tokens, as transformers makes them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
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
  // `arguments` are names that the chat template reads besides the special tokens: each value is
  // JSON ("false", "[{...}]") or, if it is not, a text ("26 Jul 2024"). `tokenizer` must outlive
  // the encoder. kInvalidArgument for a chat template that does not parse, for arguments without
  // one, and for an argument that hides what the encoder sets.
  static Result<TextEncoder> Create(const Tokenizer& tokenizer,
                                    const std::map<std::string, std::string>& arguments = {});

  bool has_chat_template() const { return chat_template_.has_value(); }

  // Returns the tokens of tokenizer(text).
  Result<std::vector<std::int32_t>> EncodeText(std::string_view text) const;

  // Returns the tokens of apply_chat_template(messages). kInvalidArgument if the model has no chat
  // template, for messages without role or content, and with what the template raises. `tools` is a
  // list of descriptions that replaces the tools of the arguments, or null.
  Result<std::vector<std::int32_t>> EncodeMessages(
      const nlohmann::ordered_json& messages, bool add_generation_prompt,
      const nlohmann::ordered_json& tools = nullptr) const;

  // Returns the text whose tokens EncodeMessages returns. Errors as there.
  Result<std::string> RenderMessages(const nlohmann::ordered_json& messages,
                                     bool add_generation_prompt,
                                     const nlohmann::ordered_json& tools = nullptr) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Encodes the field "text" or "messages" of a row, whichever it has, the messages with its
  // "tools".
  Result<std::vector<std::int32_t>> EncodeRow(const JsonRow& row,
                                              const RowEncoding& encoding) const;

 private:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const Tokenizer* tokenizer_;
  std::optional<ChatTemplate> chat_template_;  // absent if the model has none
  // What the chat template reads: the special tokens, then the arguments.
  nlohmann::ordered_json variables_ = nlohmann::ordered_json::object();
};

}  // namespace buttress
