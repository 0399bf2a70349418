// Jinja's tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "lib/base/status.h"
#include "lib/jinja/arguments.h"
#include "lib/jinja/value.h"

namespace buttress {

bool IsJinjaTest(std::string_view name);

// REQUIRES: IsJinjaTest(name).
Result<bool> ApplyJinjaTest(std::string_view name, const JinjaValue& value,
                            const JinjaArguments& arguments);

}  // namespace buttress
