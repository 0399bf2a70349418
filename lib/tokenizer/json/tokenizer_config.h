// Reads tokenizer_config.json: the roles of special tokens, and the chat template.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct TokenizerConfig {
  std::string chat_template;                          // empty: none
  std::map<std::string, std::string> special_tokens;  // by role, such as bos_token
  bool add_prefix_space = false;
  std::optional<bool> add_bos_token;  // absent: the post-processor of tokenizer.json decides
  std::optional<bool> add_eos_token;

  struct NamedToken {
    std::string content;
    std::int32_t id = -1;  // -1: the file does not say
  };

  // Every token that the file names. Hugging Face adds those that tokenizer.json lacks.
  std::vector<NamedToken> tokens;
};

// Returns kInvalidArgument with the member that is malformed.
Result<TokenizerConfig> ParseTokenizerConfig(std::string_view text);

}  // namespace buttress
