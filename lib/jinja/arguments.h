// The arguments of a call, and their match with the parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/jinja/value.h"

namespace buttress {

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

// A value for each of `parameters`, in their order; none where the call gives none.
// kInvalidArgument for arguments that have no parameter.
Result<std::vector<std::optional<JinjaValue>>> BindJinjaArguments(
    const JinjaArguments& arguments, const std::vector<std::string_view>& parameters);

Result<std::int64_t> IntegerArgument(const std::optional<JinjaValue>& value, std::string_view name,
                                     std::int64_t absent);

// None also where the value is none.
Result<std::optional<std::string>> TextArgument(const std::optional<JinjaValue>& value,
                                                std::string_view name);

bool TruthArgument(const std::optional<JinjaValue>& value, bool absent);

}  // namespace buttress
