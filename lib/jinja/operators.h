// Python's operators.
#pragma once

#include <string_view>

#include "lib/base/status.h"
#include "lib/jinja/value.h"

namespace buttress {

// `name`: + - * / // % ~. kInvalidArgument for types that it does not join, and for integers beyond
// int64.
Result<JinjaValue> JinjaBinary(std::string_view name, const JinjaValue& left,
                               const JinjaValue& right);

// `name`: + or -.
Result<JinjaValue> JinjaSign(std::string_view name, const JinjaValue& operand);

// `name`: == != < <= > >= in, not in.
Result<bool> JinjaCompare(std::string_view name, const JinjaValue& left, const JinjaValue& right);

}  // namespace buttress
