// The arguments of a call, and how they bind to parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/jinja/value.h"

namespace buttress {

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

// Returns a value for each of `parameters`, in their order; nullopt for a parameter that the call
// leaves out. Returns kInvalidArgument for an argument without a parameter.
Result<std::vector<std::optional<JinjaValue>>> BindJinjaArguments(
    const JinjaArguments& arguments, const std::vector<std::string_view>& parameters);

// Returns kInvalidArgument if there is an argument.
inline Status ExpectNoArguments(const JinjaArguments& arguments) {
  return BindJinjaArguments(arguments, {}).status();
}

Result<std::int64_t> IntegerArgument(const std::optional<JinjaValue>& value, std::string_view name,
                                     std::int64_t absent);

// Returns nullopt for an absent argument and for the value none.
Result<std::optional<std::string>> TextArgument(const std::optional<JinjaValue>& value,
                                                std::string_view name);

bool TruthArgument(const std::optional<JinjaValue>& value, bool absent);

}  // namespace buttress
