// Converts text to tokens and back, as the tokenizer.json (byte-level or SentencePiece-style BPE)
// and tokenizer_config.json of a Hugging Face folder define. Text exists only at the edges of the
// system: prompts are encoded once, completions are decoded once for the verifier, and nothing is
// encoded again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

enum class SpecialTokens { kKeep, kSkip };

// Thread-safe after construction.
class Tokenizer {
 public:
  // Reads tokenizer.json and, where present, tokenizer_config.json and chat_template.jinja.
  // Unsupported parts are refused by name and never ignored: "tokenizer.json: model.type =
  // 'Unigram' is not supported; BPE is".
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& folder);

  virtual ~Tokenizer() = default;

  // Returns the tokens of Hugging Face's encode(text, add_special_tokens=False). Special tokens
  // written in the text are recognised. Returns kInvalidArgument for text that is not UTF-8.
  virtual Result<std::vector<std::int32_t>> Encode(std::string_view text) const = 0;

  // Returns `tokens` with the special tokens around them that tokenizer(text) of transformers adds,
  // such as the BOS of Llama. A rendered chat template writes its own.
  virtual std::vector<std::int32_t> AddSpecialTokens(std::vector<std::int32_t> tokens) const = 0;

  // Returns the text of `tokens`. Incomplete UTF-8 becomes U+FFFD. For ids without a token (a
  // model's embedding may be padded beyond the tokenizer's vocabulary), kSkip leaves them out, as
  // Hugging Face's decode does, and kKeep returns kOutOfRange.
  virtual Result<std::string> Decode(std::span<const std::int32_t> tokens,
                                     SpecialTokens special) const = 0;

  // One past the largest id.
  virtual std::int32_t vocab_size() const = 0;

  // Id of a token's exact text ("<|im_end|>"), or -1.
  virtual std::int32_t TokenId(std::string_view token) const = 0;

  // The same for the added tokens of tokenizer.json, which are whole in every encoded text.
  virtual std::int32_t AddedTokenId(std::string_view token) const = 0;

  // Returns the bytes that a token adds to a text behind other tokens: part of a character, or
  // several. Empty where Decode with kSkip leaves the token out, or refuses it.
  virtual std::string TokenBytes(std::int32_t token) const = 0;

  // Ids from tokenizer_config.json; -1 if the file names none.
  virtual std::int32_t eos_token_id() const = 0;
  virtual std::int32_t pad_token_id() const = 0;

  // The special tokens that tokenizer_config.json names, by role: "bos_token" is "<s>". A chat
  // template reads them by these names.
  virtual const std::map<std::string, std::string>& special_tokens() const = 0;

  // The source of the chat template; empty if the folder has none.
  virtual const std::string& chat_template() const = 0;
};

}  // namespace buttress
