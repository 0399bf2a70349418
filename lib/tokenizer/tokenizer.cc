#include "lib/tokenizer/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/unicode.h"
#include "lib/tokenizer/bpe_tokenizer.h"

namespace buttress {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{256} << 20;

// Returns the tokens whose `normalized` flag is as given.
std::vector<AddedToken> Select(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> out;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(out),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return out;
}

// Reads a file that may be absent.
Result<std::optional<std::string>> ReadOptional(const std::string& path) {
  Result<std::string> text = ReadFile(path, kFileBytesMax);
  if (text.ok()) return std::optional(*std::move(text));
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

}  // namespace

BpeTokenizer::BpeTokenizer(TokenizerJson spec, std::vector<AddedToken> normalized,
                           TokenizerConfig config)
    : normalizer_(std::move(spec.normalizer)),
      pre_tokenizer_(std::move(spec.pre_tokenizer)),
      bpe_(std::move(spec.bpe)),
      raw_tokens_(Select(spec.added_tokens, /*normalized=*/false)),
      normalized_tokens_(std::move(normalized)),
      frame_(std::move(spec.frame)),
      config_(std::move(config)),
      decoder_(std::move(spec.decoder)) {
  for (const auto& [text, id] : bpe_.vocabulary()) AddToken(id, text, /*special=*/false);
  for (const AddedToken& token : spec.added_tokens) {
    AddToken(token.id, token.content, token.special);
    added_ids_.emplace(token.content, token.id);
  }
}

void BpeTokenizer::AddToken(std::int32_t id, std::string_view text, bool special) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  tokens_[index] = {.exists = true, .special = special, .text = std::string(text)};
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Create(TokenizerJson spec,
                                                        TokenizerConfig config) {
  if (config.add_prefix_space && !spec.pre_tokenizer.add_prefix_space())
    return InvalidArgument(
        "tokenizer_config.json: add_prefix_space = true, but false in tokenizer.json; make them "
        "equal");
  std::vector<AddedToken> normalized = Select(spec.added_tokens, /*normalized=*/true);
  for (AddedToken& token : normalized) {
    BUTTRESS_ASSIGN_OR_RETURN(token.content, spec.normalizer.Normalize(token.content));
    if (token.content.empty())
      return InvalidArgument("tokenizer.json: the normalizer leaves nothing of an added token");
  }
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(spec), std::move(normalized), std::move(config)));
  for (const TokenizerConfig::NamedToken& token : tokenizer->config_.tokens) {
    const std::int32_t id = tokenizer->TokenId(token.content);
    if (id < 0 || (token.id >= 0 && id != token.id))
      return InvalidArgument(
          fmt::format("tokenizer_config.json: token '{}'{} is not in tokenizer.json; add it there",
                      token.content, token.id >= 0 ? " with id " + std::to_string(token.id) : ""));
  }
  tokenizer->SetFrame();
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

// tokenizer_config.json overrides the post-processor where it says whether BOS or EOS is added.
void BpeTokenizer::SetFrame() {
  if (!config_.add_bos_token && !config_.add_eos_token) return;
  frame_ = {};
  const std::int32_t bos = RoleId("bos_token");
  if (config_.add_bos_token.value_or(false) && bos >= 0) frame_.before.push_back(bos);
  if (config_.add_eos_token.value_or(false) && eos_token_id() >= 0)
    frame_.after.push_back(eos_token_id());
}

std::vector<std::int32_t> BpeTokenizer::AddSpecialTokens(std::vector<std::int32_t> tokens) const {
  tokens.insert(tokens.begin(), frame_.before.begin(), frame_.before.end());
  tokens.insert(tokens.end(), frame_.after.begin(), frame_.after.end());
  return tokens;
}

std::int32_t BpeTokenizer::AddedTokenId(std::string_view token) const {
  const auto added = added_ids_.find(token);
  return added == added_ids_.end() ? -1 : added->second;
}

std::int32_t BpeTokenizer::TokenId(std::string_view token) const {
  if (token.empty()) return -1;
  if (const std::int32_t added = AddedTokenId(token); added >= 0) return added;
  const auto it = bpe_.vocabulary().find(token);
  return it == bpe_.vocabulary().end() ? -1 : it->second;
}

// Returns the id of the special token with a role such as "bos_token", or -1.
std::int32_t BpeTokenizer::RoleId(const std::string& role) const {
  const auto token = config_.special_tokens.find(role);
  return token == config_.special_tokens.end() ? -1 : TokenId(token->second);
}

// Encodes a part without added tokens, which begins the whole text if `first`.
Status BpeTokenizer::EncodePlain(std::string text, bool first,
                                 std::vector<std::int32_t>& tokens) const {
  BUTTRESS_ASSIGN_OR_RETURN(const PreTokenizedText pre_tokenized,
                            pre_tokenizer_.Split(std::move(text), first));
  const std::string_view all = pre_tokenized.text;
  for (const TextRange& word : pre_tokenized.words) {
    const std::string_view characters = all.substr(word.begin, word.end - word.begin);
    const auto unknown = bpe_.EncodeWord(characters, tokens);
    if (!unknown.has_value()) continue;
    const std::size_t length = CodePointAt(characters, *unknown).length;
    return InvalidArgument(
        fmt::format("'{}' in '{}' has no token in this vocabulary, which has neither "
                    "model.unk_token nor model.byte_fallback; leave the character out of the text",
                    characters.substr(*unknown, length), characters.substr(0, *unknown + length)));
  }
  return OkStatus();
}

Result<std::vector<std::int32_t>> BpeTokenizer::Encode(std::string_view text) const {
  if (const auto invalid = FirstInvalidUtf8(text); invalid.has_value())
    return InvalidArgument(
        fmt::format("the text is not UTF-8 at byte {} of {}", *invalid, text.size()));
  std::vector<std::int32_t> tokens;
  for (const AddedTokenPart& part : raw_tokens_.Split(text)) {
    if (part.token.has_value()) {
      tokens.push_back(*part.token);
      continue;
    }
    BUTTRESS_ASSIGN_OR_RETURN(
        const std::string normalized,
        normalizer_.Normalize(text.substr(part.range.begin, part.range.end - part.range.begin)));
    for (const AddedTokenPart& inner : normalized_tokens_.Split(normalized)) {
      if (inner.token.has_value()) {
        tokens.push_back(*inner.token);
        continue;
      }
      BUTTRESS_RETURN_IF_ERROR(
          EncodePlain(normalized.substr(inner.range.begin, inner.range.end - inner.range.begin),
                      part.range.begin == 0 && inner.range.begin == 0, tokens));
    }
  }
  return tokens;
}

// Returns null for an id without a token.
const BpeTokenizer::TokenText* BpeTokenizer::FindToken(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return nullptr;
  const TokenText& token = tokens_[static_cast<std::size_t>(id)];
  return token.exists ? &token : nullptr;
}

std::string BpeTokenizer::TokenBytes(std::int32_t token) const {
  const TokenText* found = FindToken(token);
  if (found == nullptr || found->special) return "";
  Result<std::string> bytes = decoder_.TokenBytes(found->text);
  return bytes.ok() ? *std::move(bytes) : "";
}

Result<std::string> BpeTokenizer::Decode(std::span<const std::int32_t> tokens,
                                         SpecialTokens special) const {
  std::vector<std::string> texts;
  texts.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const TokenText* token = FindToken(tokens[i]);
    if (token == nullptr) {
      if (special == SpecialTokens::kSkip) continue;
      return OutOfRange(
          fmt::format("token {} at position {} is not in the vocabulary, whose ids end at {}",
                      tokens[i], i, vocab_size() - 1));
    }
    if (token->special && special == SpecialTokens::kSkip) continue;
    texts.push_back(token->text);
  }
  return decoder_.Decode(std::move(texts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& folder) {
  const std::string tokenizer_path = JoinPath(folder, "tokenizer.json");
  const std::string config_path = JoinPath(folder, "tokenizer_config.json");
  BUTTRESS_ASSIGN_OR_RETURN(const std::string tokenizer_text,
                            ReadFile(tokenizer_path, kFileBytesMax));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<std::string> config_text,
                            ReadOptional(config_path));
  BUTTRESS_ASSIGN_OR_RETURN(std::optional<std::string> template_text,
                            ReadOptional(JoinPath(folder, "chat_template.jinja")));
  Result<TokenizerJson> spec = ParseTokenizerJson(tokenizer_text);
  if (!spec.ok()) return spec.status().Annotate(tokenizer_path);
  Result<TokenizerConfig> config =
      config_text.has_value() ? ParseTokenizerConfig(*config_text) : TokenizerConfig();
  if (!config.ok()) return config.status().Annotate(config_path);
  if (template_text.has_value()) config->chat_template = *std::move(template_text);
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      BpeTokenizer::Create(*std::move(spec), *std::move(config));
  if (!tokenizer.ok()) return tokenizer.status().Annotate(folder);
  return tokenizer;
}

}  // namespace buttress
