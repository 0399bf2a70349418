#include "lib/tokenizer/json/json_fields.h"

#include <fmt/core.h>

#include <algorithm>

namespace buttress {

using nlohmann::json;

namespace {

constexpr std::size_t kExcerptBytes = 60;

}  // namespace

std::string MemberPath(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : std::string(path) + "." + std::string(name);
}

std::string Excerpt(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  // All ASCII, so that it can be cut anywhere.
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kExcerptBytes) text = text.substr(0, kExcerptBytes) + "...";
  return text;
}

const json& MemberOrNull(const json& object, const std::string& name) {
  static const json kNull;
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

Result<bool> BoolMember(const json& object, std::string_view path, const std::string& name,
                        bool absent) {
  const json& value = MemberOrNull(object, name);
  if (value.is_null()) return absent;
  if (!value.is_boolean())
    return InvalidArgument(
        fmt::format("{} = {} is not true or false", MemberPath(path, name), Excerpt(value)));
  return value.get<bool>();
}

Result<std::string> StringMember(const json& object, std::string_view path, const std::string& name,
                                 const std::string& absent) {
  const json& value = MemberOrNull(object, name);
  if (value.is_null()) return absent;
  if (!value.is_string())
    return InvalidArgument(
        fmt::format("{} = {} is not a string", MemberPath(path, name), Excerpt(value)));
  return value.get<std::string>();
}

Result<std::int32_t> IdOf(const json& value, std::string_view path, std::int32_t max) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max))
    return value.get<std::int32_t>();
  return InvalidArgument(
      fmt::format("{} = {} is not a whole number from 0 to {}", path, Excerpt(value), max));
}

Status ExpectObject(const json& value, std::string_view path) {
  if (value.is_object()) return OkStatus();
  return InvalidArgument(fmt::format("{} = {} is not an object", path, Excerpt(value)));
}

Status ExpectMembersAmong(const json& object, std::string_view path,
                          std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return InvalidArgument(MemberPath(path, name) + " is not supported; it may change results");
  }
  return OkStatus();
}

}  // namespace buttress
