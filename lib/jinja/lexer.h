// Cuts a template into text and the tokens of its tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

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
  std::string text;  // of a string, with its escapes resolved
  int line = 1;
};

// White space as with trim_blocks and lstrip_blocks on and keep_trailing_newline off, which is how
// transformers runs Jinja. The last token is kEnd. kInvalidArgument names the line. REQUIRES: valid
// UTF-8.
Result<std::vector<JinjaToken>> LexJinja(std::string_view source);

// kInvalidArgument: "chat template, line 3: message".
Status JinjaErrorAt(int line, const std::string& message);

}  // namespace buttress
