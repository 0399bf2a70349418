// Converts values to text: as {{ }} prints them, and as JSON.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/jinja/value.h"

namespace buttress {

// Returns Python's str(value), or kInvalidArgument for functions and loops, which have no fixed
// text.
Result<std::string> JinjaToText(const JinjaValue& value);

struct JinjaJsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;  // of one level; used if multiline
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Returns Python's json.dumps(value), or kInvalidArgument for values that JSON cannot represent.
Result<std::string> JinjaToJson(const JinjaValue& value, const JinjaJsonStyle& style);

}  // namespace buttress
