// Requests of /tokenize and /detokenize, as vLLM has them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct TokenizeRequest {
  std::string model;  // empty: not named
  std::string prompt;
  nlohmann::ordered_json messages;  // as TemplateMessages returns them; null: prompt is meant
  nlohmann::ordered_json tools;
  nlohmann::ordered_json template_arguments;  // chat_template_kwargs; null for none
  bool add_special_tokens = true;             // to the prompt
  bool add_generation_prompt = true;          // to the messages
};

struct DetokenizeRequest {
  std::string model;  // empty: not named
  std::vector<std::int32_t> tokens;
};

// Parse a body. kInvalidArgument begins with the name of the field. Pure.
Result<TokenizeRequest> ParseTokenize(std::string_view body);
Result<DetokenizeRequest> ParseDetokenize(std::string_view body);

}  // namespace buttress
