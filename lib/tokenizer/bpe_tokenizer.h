// The Tokenizer that a tokenizer.json describes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/tokenizer/added_tokens.h"
#include "lib/tokenizer/json/tokenizer_config.h"
#include "lib/tokenizer/json/tokenizer_json.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

class BpeTokenizer : public Tokenizer {
 public:
  // Returns kInvalidArgument if the two files contradict each other.
  static Result<std::unique_ptr<Tokenizer>> Create(TokenizerJson spec, TokenizerConfig config);

  Result<std::vector<std::int32_t>> Encode(std::string_view text) const override;
  std::vector<std::int32_t> AddSpecialTokens(std::vector<std::int32_t> tokens) const override;
  Result<std::string> Decode(std::span<const std::int32_t> tokens,
                             SpecialTokens special) const override;

  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }

  std::int32_t TokenId(std::string_view token) const override;
  std::int32_t AddedTokenId(std::string_view token) const override;
  std::string TokenBytes(std::int32_t token) const override;

  std::int32_t eos_token_id() const override { return RoleId("eos_token"); }

  std::int32_t pad_token_id() const override { return RoleId("pad_token"); }

  const std::map<std::string, std::string>& special_tokens() const override {
    return config_.special_tokens;
  }

  const std::string& chat_template() const override { return config_.chat_template; }

 private:
  struct TokenText {
    bool exists = false;
    bool special = false;
    std::string text;
  };

  // `normalized` are the added tokens that match in normalized text, with normalized contents.
  BpeTokenizer(TokenizerJson spec, std::vector<AddedToken> normalized, TokenizerConfig config);

  void AddToken(std::int32_t id, std::string_view text, bool special);
  std::int32_t RoleId(const std::string& role) const;
  const TokenText* FindToken(std::int32_t id) const;
  void SetFrame();
  Status EncodePlain(std::string text, bool first, std::vector<std::int32_t>& tokens) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  AddedTokenFinder raw_tokens_;         // match in the raw text
  AddedTokenFinder normalized_tokens_;  // match in the normalized text
  TokenFrame frame_;                    // what AddSpecialTokens adds
  TokenizerConfig config_;
  Vocabulary added_ids_;
  Decoder decoder_;
  std::vector<TokenText> tokens_;  // by id
};

}  // namespace buttress
