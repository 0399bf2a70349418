// Values as text: as {{ }} prints them, and as JSON.
#pragma once

#include <string>

#include "lib/base/status.h"
#include "lib/jinja/value.h"

namespace buttress {

// Python's str(). kInvalidArgument for values without a fixed text (functions, loops).
Result<std::string> JinjaToText(const JinjaValue& value);

struct JinjaJsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;  // of one level, when multiline
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Python's json.dumps(). kInvalidArgument for values that JSON does not have.
Result<std::string> JinjaToJson(const JinjaValue& value, const JinjaJsonStyle& style);

}  // namespace buttress
