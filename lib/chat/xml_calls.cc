#include "lib/chat/xml_calls.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/chat/python_calls.h"
#include "lib/chat/scan.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

void SkipSpace(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n\t\r"), text.size()));
}

// Takes what is before `end`, and `end`; nullopt if that is missing.
std::optional<std::string_view> TakeUntil(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

bool IsName(std::string_view name) {
  return !name.empty() && name.find_first_of(" \n\t\r<>{}\"") == std::string_view::npos;
}

const ordered_json& MemberOf(const ordered_json& json, std::string_view name) {
  static const ordered_json kMissing;
  const auto member = json.find(name);
  return member == json.end() ? kMissing : *member;
}

// The properties of the arguments of a tool; null if they are not described.
const ordered_json& PropertiesOf(const ordered_json& tools, std::string_view name) {
  static const ordered_json kUnknown;
  for (const ordered_json& tool : tools) {
    const ordered_json& function = MemberOf(tool, "function");
    if (MemberOf(function, "name") == name)
      return MemberOf(MemberOf(function, "parameters"), "properties");
  }
  return kUnknown;
}

// The names of types that a schema declares; none if it says nothing of them.
std::vector<std::string> TypesOf(const ordered_json& schema) {
  std::vector<std::string> types;
  const auto add = [&types](const ordered_json& type) {
    if (type.is_string()) types.push_back(type.get<std::string>());
    if (!type.is_array()) return;
    for (const ordered_json& one : type) {
      if (one.is_string()) types.push_back(one.get<std::string>());
    }
  };
  add(MemberOf(schema, "type"));
  for (const char* choices : {"anyOf", "oneOf"}) {
    for (const ordered_json& choice : MemberOf(schema, choices)) add(MemberOf(choice, "type"));
  }
  return types;
}

// What a text is as JSON or as a literal of Python, of which models mix the words. nullopt for
// others.
std::optional<ordered_json> ValueOf(std::string_view text) {
  text = WithoutSpace(text);
  if (text.size() > kMaxJsonBytes || NestedDeeper(text)) return std::nullopt;
  ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_discarded()) return value;
  Result<ordered_json> literal = ReadPythonLiteral(text);
  return literal.ok() ? std::optional(*std::move(literal)) : std::nullopt;
}

bool IsOfType(const ordered_json& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean" || type == "bool") return value.is_boolean();
  if (type == "integer" || type == "int") return value.is_number_integer();
  if (type == "number" || type == "float") return value.is_number();
  if (type == "array" || type == "list") return value.is_array();
  if (type == "object" || type == "dict") return value.is_object();
  return false;
}

// 2.0 where an integer is declared is 2.
bool IsWhole(const ordered_json& value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53: the integers that are exact
  return value.is_number_float() && std::abs(value.get<double>()) <= kMost &&
         std::trunc(value.get<double>()) == value.get<double>();
}

ordered_json Typed(std::string_view text, const ordered_json& schema, bool any_if_undeclared) {
  const std::vector<std::string> types = TypesOf(schema);
  if (types.empty() && !any_if_undeclared) return text;
  std::optional<ordered_json> value;
  if (types.size() != 1 || types[0] != "string") value = ValueOf(text);
  if (!value) return text;
  const auto fits = [&](const std::string& type) { return IsOfType(*value, type); };
  if (types.empty() || std::ranges::any_of(types, fits)) return *value;
  if (std::ranges::count(types, "integer") > 0 && IsWhole(*value))
    return static_cast<std::int64_t>(value->get<double>());
  return text;
}

// Takes the value of a parameter of Qwen up to what ends it; nullopt if nothing does.
std::optional<std::string_view> TakeParameter(std::string_view& text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    std::string_view rest = text.substr(at);
    const bool closed = TakePrefix(rest, "</parameter>");
    if (!closed && !rest.starts_with("<parameter=") && !rest.starts_with("</function>")) continue;
    std::string_view value = text.substr(0, at);
    text = rest;
    TakePrefix(value, "\n");
    if (value.ends_with('\n')) value.remove_suffix(1);
    return value;
  }
  return std::nullopt;
}

Status ReadFunction(std::string_view& rest, const ordered_json& tools, ToolCall& call) {
  const std::optional<std::string_view> name =
      TakePrefix(rest, "<function=") ? TakeUntil(rest, ">") : std::nullopt;
  if (!name || !IsName(*name)) return InvalidArgument("is not <function=NAME>...</function>");
  call = {std::string(*name), ordered_json::object()};
  const ordered_json& properties = PropertiesOf(tools, *name);
  while (true) {
    SkipSpace(rest);
    if (TakePrefix(rest, "</function>")) return OkStatus();
    const std::optional<std::string_view> key =
        TakePrefix(rest, "<parameter=") ? TakeUntil(rest, ">") : std::nullopt;
    if (!key || key->empty()) return InvalidArgument("has no <parameter=...> or </function>");
    const std::optional<std::string_view> value = TakeParameter(rest);
    if (!value) return InvalidArgument("has a parameter without </parameter>");
    call.arguments[std::string(*key)] = Typed(*value, MemberOf(properties, *key), false);
  }
}

}  // namespace

Status ReadQwenCalls(std::string_view body, const ordered_json& tools,
                     std::vector<ToolCall>& calls) {
  SkipSpace(body);
  do {
    ToolCall call;
    BUTTRESS_RETURN_IF_ERROR(ReadFunction(body, tools, call));
    calls.push_back(std::move(call));
    SkipSpace(body);
  } while (!body.empty());
  return OkStatus();
}

Status ReadGlmCall(std::string_view body, const ordered_json& tools, std::vector<ToolCall>& calls) {
  constexpr std::string_view kKey = "<arg_key>";
  const std::size_t arguments = std::min(body.find(kKey), body.size());
  const std::string name(WithoutSpace(body.substr(0, arguments)));
  if (!IsName(name)) return InvalidArgument("is not NAME<arg_key>...</arg_key>...");
  const ordered_json& properties = PropertiesOf(tools, name);
  ToolCall call{name, ordered_json::object()};
  for (body.remove_prefix(arguments); !body.empty(); SkipSpace(body)) {
    const std::optional<std::string_view> key =
        TakePrefix(body, kKey) ? TakeUntil(body, "</arg_key>") : std::nullopt;
    SkipSpace(body);
    const bool valued = key && TakePrefix(body, "<arg_value>");
    const std::optional<std::string_view> value =
        valued ? TakeUntil(body, "</arg_value>") : std::nullopt;
    if (!value) return InvalidArgument("has no <arg_key>...</arg_key><arg_value>...</arg_value>");
    const std::string_view argument = WithoutSpace(*key);
    call.arguments[std::string(argument)] = Typed(*value, MemberOf(properties, argument), true);
  }
  calls.push_back(std::move(call));
  return OkStatus();
}

}  // namespace buttress
