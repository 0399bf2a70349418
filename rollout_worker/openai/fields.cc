#include "rollout_worker/openai/fields.h"

#include <fmt/core.h>

#include <cmath>

#include "lib/base/text/bounded_json.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kShown = 60;  // characters of a wrong value

std::string Shown(const ordered_json& value) {
  std::string text = value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (text.size() > kShown) text.replace(kShown, std::string::npos, "...");
  return text;
}

}  // namespace

Result<ordered_json> ParseObject(std::string_view body) {
  if (NestedDeeper(body)) return InvalidArgument("the body is nested too deeply");
  ordered_json parsed = ordered_json::parse(body, nullptr, false);
  if (!parsed.is_object()) return InvalidArgument("the body is not JSON; expected an object");
  return parsed;
}

Status WrongField(const std::string& name, const ordered_json& value, std::string_view expected) {
  return InvalidArgument(fmt::format("{} = {}; expected {}", name, Shown(value), expected));
}

ordered_json MemberOf(const ordered_json& json, const char* name) {
  return json.is_object() ? json.value(name, ordered_json()) : ordered_json();
}

Status ReadField(const std::string& name, const ordered_json& value, bool& out) {
  if (!value.is_boolean()) return WrongField(name, value, "true or false");
  out = value.get<bool>();
  return OkStatus();
}

Status ReadField(const std::string& name, const ordered_json& value, std::string& out) {
  if (!value.is_string()) return WrongField(name, value, "a text");
  out = value.get<std::string>();
  return OkStatus();
}

Status ReadNumberField(const std::string& name, const ordered_json& value, double least,
                       double most, double& out) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most))
    return WrongField(name, value, fmt::format("a number from {} to {}", least, most));
  out = number;
  return OkStatus();
}

Status ReadWholeField(const std::string& name, const ordered_json& value, std::int32_t least,
                      std::int32_t most, std::int32_t& out) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < least ||
      value.get<std::int64_t>() > most || (value.is_number_unsigned() && value > kMaxWhole))
    return WrongField(name, value, fmt::format("a whole number from {} to {}", least, most));
  out = value.get<std::int32_t>();
  return OkStatus();
}

Status ReadIdsField(const std::string& name, const ordered_json& value,
                    std::vector<std::int32_t>& out) {
  if (!value.is_array()) return WrongField(name, value, "a list of token ids");
  out.clear();
  out.reserve(value.size());
  for (const ordered_json& id : value)
    BUTTRESS_RETURN_IF_ERROR(ReadWholeField(name, id, 0, kMaxWhole, out.emplace_back()));
  return OkStatus();
}

}  // namespace buttress
