// One token a byte, so that tests need no tokenizer.json and can read what was encoded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace buttress {

class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(std::string chat_template = "")
      : chat_template_(std::move(chat_template)) {}

  Result<std::vector<std::int32_t>> Encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  std::vector<std::int32_t> AddSpecialTokens(std::vector<std::int32_t> tokens) const override {
    return tokens;
  }

  Result<std::string> Decode(std::span<const std::int32_t> tokens, SpecialTokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += static_cast<char>(token);
    return text;
  }

  std::int32_t vocab_size() const override { return 256; }

  std::int32_t TokenId(std::string_view) const override { return -1; }

  std::int32_t AddedTokenId(std::string_view) const override { return -1; }

  std::string TokenBytes(std::int32_t token) const override {
    return std::string(1, static_cast<char>(token));
  }

  std::int32_t eos_token_id() const override { return 0; }

  std::int32_t pad_token_id() const override { return -1; }

  const std::map<std::string, std::string>& special_tokens() const override {
    return special_tokens_;
  }

  const std::string& chat_template() const override { return chat_template_; }

 private:
  const std::map<std::string, std::string> special_tokens_{{"bos_token", "^"}, {"eos_token", "$"}};
  const std::string chat_template_;
};

}  // namespace buttress
