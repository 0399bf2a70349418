// Jinja's filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "lib/base/status.h"
#include "lib/jinja/arguments.h"
#include "lib/jinja/value.h"

namespace buttress {

bool IsJinjaFilter(std::string_view name);

// REQUIRES: IsJinjaFilter(name).
Result<JinjaValue> ApplyJinjaFilter(std::string_view name, const JinjaValue& value,
                                    const JinjaArguments& arguments);

}  // namespace buttress
