// Splits a template into text and the tokens of its tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct JinjaToken {
  enum class Kind {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };

  Kind kind = Kind::kEnd;
  std::string text;  // escapes of a string are resolved
  int line = 1;
};

// Returns the tokens; the last one is kEnd. White space is handled as with trim_blocks and
// lstrip_blocks on and keep_trailing_newline off, the settings of transformers. Returns
// kInvalidArgument with the line. REQUIRES: valid UTF-8.
Result<std::vector<JinjaToken>> LexJinja(std::string_view source);

// Returns kInvalidArgument with "chat template, line 3: message".
Status JinjaErrorAt(int line, const std::string& message);

}  // namespace buttress
