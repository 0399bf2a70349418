#include "cli/explain/condition.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// The numbers of an object, and of the objects in it, by their paths.
void ListNumbers(const ordered_json& object, const std::string& prefix,
                 std::vector<std::string>& names) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) names.push_back(prefix + key);
    if (value.is_object()) ListNumbers(value, prefix + key + ".", names);
  }
}

// Names of sources have dots as well, so every way to divide the path is tried.
const ordered_json* Find(const ordered_json& object, std::string_view path) {
  if (!object.is_object()) return nullptr;
  if (const auto found = object.find(path); found != object.end()) return &*found;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const auto inner = object.find(path.substr(0, dot));
    if (inner == object.end()) continue;
    if (const ordered_json* found = Find(*inner, path.substr(dot + 1))) return found;
  }
  return nullptr;
}

}  // namespace

Result<Condition> ParseCondition(const std::string& text) {
  const std::size_t sign = text.find_first_of("<>");
  const auto wrong = [&](std::string_view why) {
    return InvalidArgument(
        fmt::format("--fail-if '{}': {}; expected NAME, one of < <= > >=, and "
                    "a number, as in 'acr > 0.6'",
                    text, why));
  };
  if (sign == std::string::npos) return wrong("there is no comparison");
  const std::size_t width = text.compare(sign + 1, 1, "=") == 0 ? 2 : 1;
  Condition condition = {.text = text,
                         .name = std::string(Trim(std::string_view(text).substr(0, sign))),
                         .comparison = text.substr(sign, width)};
  if (condition.name.empty()) return wrong("there is no name");
  const std::string_view number = Trim(std::string_view(text).substr(sign + width));
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), condition.bound);
  if (error != std::errc() || end != number.data() + number.size() ||
      !std::isfinite(condition.bound))
    return wrong(fmt::format("'{}' is no number", number));
  return condition;
}

Result<bool> Holds(const Condition& condition, const ordered_json& summary) {
  const ordered_json* value = Find(summary, condition.name);
  if (value == nullptr || (!value->is_number() && !value->is_null())) {
    std::vector<std::string> names;
    ListNumbers(summary, "", names);
    return InvalidArgument(fmt::format("--fail-if '{}': the report has no number {}; it has {}",
                                       condition.text, condition.name, fmt::join(names, ", ")));
  }
  if (value->is_null()) return false;
  const double number = value->get<double>();
  if (condition.comparison == "<") return number < condition.bound;
  if (condition.comparison == "<=") return number <= condition.bound;
  if (condition.comparison == ">") return number > condition.bound;
  return number >= condition.bound;
}

}  // namespace buttress
