#include <fmt/core.h>

#include <algorithm>

#include "lib/jinja/builtins.h"

namespace buttress {

Result<std::vector<std::optional<JinjaValue>>> BindJinjaArguments(
    const JinjaArguments& arguments, const std::vector<std::string_view>& parameters) {
  std::vector<std::optional<JinjaValue>> out(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return InvalidArgument(fmt::format("{} arguments; at most {} are expected",
                                       arguments.positional.size(), parameters.size()));
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), out.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(parameters.begin(), parameters.end(), name);
    if (it == parameters.end()) return InvalidArgument("argument '" + name + "' is not supported");
    std::optional<JinjaValue>& slot = out[static_cast<std::size_t>(it - parameters.begin())];
    if (slot.has_value()) return InvalidArgument("argument '" + name + "' is given twice");
    slot = value;
  }
  return out;
}

Result<std::int64_t> IntegerArgument(const std::optional<JinjaValue>& value, std::string_view name,
                                     std::int64_t absent) {
  if (!value.has_value() || value->is_none()) return absent;
  if (value->is_integer()) return value->integer();
  return InvalidArgument(fmt::format("argument '{}' is of type '{}'; an integer is expected", name,
                                     value->TypeName()));
}

Result<std::optional<std::string>> TextArgument(const std::optional<JinjaValue>& value,
                                                std::string_view name) {
  if (!value.has_value() || value->is_none()) return std::optional<std::string>();
  if (value->is_text()) return std::optional(value->text());
  return InvalidArgument(
      fmt::format("argument '{}' is of type '{}'; a text is expected", name, value->TypeName()));
}

bool TruthArgument(const std::optional<JinjaValue>& value, bool absent) {
  return value.has_value() ? value->Truthy() : absent;
}

}  // namespace buttress
