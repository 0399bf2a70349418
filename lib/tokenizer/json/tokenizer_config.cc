#include "lib/tokenizer/json/tokenizer_config.h"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/base/text/bounded_json.h"
#include "lib/tokenizer/json/json_fields.h"
#include "lib/tokenizer/json/tokenizer_json.h"

namespace buttress {

using nlohmann::json;

namespace {

// A token is written as a string, or as an object with its content.
Result<std::string> TokenText(const json& value, const std::string& path) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && MemberOrNull(value, "content").is_string())
    return value["content"].get<std::string>();
  return InvalidArgument(fmt::format(
      "{} = {} is neither a token's text nor an object with its content", path, Excerpt(value)));
}

Result<std::string> ParseChatTemplate(const json& value) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const json& entry : value) {
      if (entry.is_object() && MemberOrNull(entry, "name") == "default" &&
          MemberOrNull(entry, "template").is_string())
        return entry["template"].get<std::string>();
    }
  }
  return InvalidArgument("chat_template = " + Excerpt(value) +
                         " is neither a text nor a list with a template named 'default'");
}

Status AppendAddedTokens(const json& tokens, TokenizerConfig& config) {
  if (tokens.is_null()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(tokens, "added_tokens_decoder"));
  for (const auto& [key, value] : tokens.items()) {
    const std::string path = "added_tokens_decoder['" + key + "']";
    TokenizerConfig::NamedToken token;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0 ||
        token.id >= kTokenIdEnd)
      return InvalidArgument(path + ": the key is not a token id");
    BUTTRESS_ASSIGN_OR_RETURN(token.content, TokenText(value, path));
    if (token.content.empty()) return InvalidArgument(path + " is empty");
    config.tokens.push_back(std::move(token));
  }
  return OkStatus();
}

}  // namespace

Result<TokenizerConfig> ParseTokenizerConfig(std::string_view text) {
  if (NestedDeeper(text)) return InvalidArgument("nested too deeply; the file is damaged");
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return InvalidArgument("not a JSON object; the file is damaged or of another format");
  TokenizerConfig config;
  BUTTRESS_ASSIGN_OR_RETURN(config.chat_template,
                            ParseChatTemplate(MemberOrNull(root, "chat_template")));
  BUTTRESS_ASSIGN_OR_RETURN(config.add_prefix_space,
                            BoolMember(root, "", "add_prefix_space", false));
  for (const auto& [name, add] : {std::pair("add_bos_token", &config.add_bos_token),
                                  std::pair("add_eos_token", &config.add_eos_token)}) {
    if (!root.contains(name)) continue;
    BUTTRESS_ASSIGN_OR_RETURN(*add, BoolMember(root, "", name, false));
  }
  BUTTRESS_RETURN_IF_ERROR(AppendAddedTokens(MemberOrNull(root, "added_tokens_decoder"), config));
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token", "sep_token",
                           "cls_token", "mask_token"}) {
    BUTTRESS_ASSIGN_OR_RETURN(std::string token, TokenText(MemberOrNull(root, name), name));
    if (token.empty()) continue;
    config.special_tokens.emplace(name, token);
    config.tokens.push_back({std::move(token)});
  }
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const json& list = MemberOrNull(root, name);
    if (!list.is_structured()) continue;
    for (const json& entry : list) {
      BUTTRESS_ASSIGN_OR_RETURN(std::string token, TokenText(entry, name));
      if (!token.empty()) config.tokens.push_back({std::move(token)});
    }
  }
  return config;
}

}  // namespace buttress
