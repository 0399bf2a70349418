// The special tokens that tokenizer(text) of transformers puts around the tokens of a text: the
// post_processor of a tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct TokenFrame {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

// Reads TemplateProcessing (its template for a single text), ByteLevel, which changes offsets only,
// and a Sequence of these. kInvalidArgument names any other type.
Result<TokenFrame> ParsePostProcessor(const nlohmann::json& spec);

}  // namespace buttress
