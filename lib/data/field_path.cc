#include "lib/data/field_path.h"

#include <fmt/core.h>

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kNamesMax = 12;
constexpr std::size_t kNameBytesMax = 64;

// Lists the names of an object's fields, each behind `prefix`.
std::string Names(const ordered_json& object, const std::string& prefix) {
  std::string names;
  std::size_t count = 0;
  for (const auto& field : object.items()) {
    if (count++ == kNamesMax) return names + fmt::format(" and {} more", object.size() - kNamesMax);
    if (!names.empty()) names += ", ";
    names += prefix + field.key().substr(0, kNameBytesMax);
  }
  return names.empty() ? "nothing" : names;
}

}  // namespace

FoundField FindField(ordered_json& object, std::string_view path) {
  if (object.contains(path)) return {&object, std::string(path)};
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const auto outer = object.find(path.substr(0, dot));
    if (outer == object.end() || !outer->is_object()) continue;
    if (FoundField inner = FindField(*outer, path.substr(dot + 1))) return inner;
  }
  return {};
}

std::string DescribeMissing(ordered_json& object, std::string_view path) {
  for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = path.rfind('.', dot - 1)) {
    const std::string_view outer = path.substr(0, dot);
    const FoundField found = FindField(object, outer);
    if (!found) continue;
    const std::string what = found.value().is_object()
                                 ? "has " + Names(found.value(), "")
                                 : "is " + DescribeValue(found.value(), outer);
    return fmt::format("no field '{}'; '{}' {}", path, outer, what);
  }
  return fmt::format("no field '{}'; the row has {}", path, Names(object, ""));
}

std::string DescribeValue(const ordered_json& value, std::string_view path) {
  if (value.is_object()) return "an object with " + Names(value, std::string(path) + ".");
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  return value.type_name();
}

}  // namespace buttress
