// Parses a template: Jinja 3.1's grammar without inheritance, imports, call, with, filter and
// autoescape.
#pragma once

#include <string_view>

#include "lib/base/status.h"
#include "lib/jinja/syntax.h"

namespace buttress {

// kInvalidArgument names the line and the construct. REQUIRES: valid UTF-8.
Result<JinjaProgram> ParseJinja(std::string_view source);

}  // namespace buttress
