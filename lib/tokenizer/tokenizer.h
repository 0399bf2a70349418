// Text <-> tokens, from a Hugging Face folder's tokenizer.json (byte-level BPE) and
// tokenizer_config.json. Text exists only at the edges of the system: prompts come in through here,
// completions go to the verifier through here, nothing is ever re-encoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

enum class SpecialTokens { kKeep, kSkip };

// Thread-safe after construction.
class Tokenizer {
 public:
  // Reads tokenizer.json, and tokenizer_config.json and chat_template.jinja where they are.
  // Unsupported parts are refused by name, never ignored: "tokenizer.json: model.type = 'Unigram'
  // is not supported; byte-level BPE is".
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& folder);

  virtual ~Tokenizer() = default;

  // Tokens of `text`, as Hugging Face's encode(text, add_special_tokens=False); special tokens
  // written in the text are recognised. Text that is not UTF-8 is kInvalidArgument.
  virtual Result<std::vector<std::int32_t>> Encode(std::string_view text) const = 0;

  // Text of `tokens`. Incomplete UTF-8 becomes U+FFFD. Ids that are no token (a model's embedding
  // may be padded beyond the tokenizer's vocabulary) are left out with kSkip, as in Hugging Face's
  // decode, and kOutOfRange with kKeep.
  virtual Result<std::string> Decode(std::span<const std::int32_t> tokens,
                                     SpecialTokens special) const = 0;

  // One past the largest id.
  virtual std::int32_t vocab_size() const = 0;

  // Id of a token's exact text ("<|im_end|>"), or -1.
  virtual std::int32_t TokenId(std::string_view token) const = 0;

  // From tokenizer_config.json; -1 if there is none.
  virtual std::int32_t eos_token_id() const = 0;
  virtual std::int32_t pad_token_id() const = 0;

  // The chat template's source; empty if the folder has none.
  virtual const std::string& chat_template() const = 0;
};

}  // namespace buttress
