#include "lib/verify/json/schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/json/compile_schema.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr int kMaxSteps = 1000000;
constexpr int kMaxDepth = 4 * kMaxJsonDepth;  // the value's own depth and references in between

// Returns the number exactly: a long double holds every 64-bit integer and every double.
long double Number(const json& value) {
  if (value.is_number_unsigned()) return static_cast<long double>(value.get<std::uint64_t>());
  if (value.is_number_integer()) return static_cast<long double>(value.get<std::int64_t>());
  return static_cast<long double>(value.get<double>());
}

bool IsMultiple(const json& value, const json& of) {
  const long double quotient = Number(value) / Number(of);
  // Decides that 0.3 is a multiple of 0.1, although the quotient of their doubles is not whole.
  constexpr long double kRounding = 1e-12L;
  return std::fabs(quotient - std::round(quotient)) <=
         kRounding * std::max(1.0L, std::fabs(quotient));
}

bool HasType(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

std::uint64_t CodePoints(const std::string& text) {
  return static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool AllDiffer(const json& list) {
  std::vector<const json*> sorted;
  for (const json& item : list) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(), [](const json* a, const json* b) { return *a < *b; });
  return std::adjacent_find(sorted.begin(), sorted.end(),
                            [](const json* a, const json* b) { return *a == *b; }) == sorted.end();
}

// Checks one value against one schema.
class Checker {
 public:
  explicit Checker(const CompiledSchema& compiled) : compiled_(compiled) {}

  Status Check(const json& schema, const json& value, const std::string& at, int depth) {
    if (++steps_ > kMaxSteps || depth > kMaxDepth)
      return ResourceExhausted("the schema takes too many steps at '" + at + "'");
    if (schema.is_boolean()) return Require(schema.get<bool>(), at, "is not allowed");
    for (const auto& [keyword, meant] : schema.items())
      BUTTRESS_RETURN_IF_ERROR(Keyword(keyword, meant, schema, value, at, depth));
    return OkStatus();
  }

 private:
  static Status Require(bool holds, const std::string& at, const std::string& what) {
    return holds ? OkStatus()
                 : InvalidArgument(fmt::format("'{}' {}", at.empty() ? "/" : at, what));
  }

  Status Keyword(const std::string& word, const json& meant, const json& schema, const json& value,
                 const std::string& at, int depth) {
    if (word == "type") {
      const bool listed =
          meant.is_array() &&
          std::any_of(meant.begin(), meant.end(), [&](const json& t) { return HasType(value, t); });
      return Require(listed || (meant.is_string() && HasType(value, meant)), at,
                     "is not of type " + meant.dump());
    }
    if (word == "enum")
      return Require(std::find(meant.begin(), meant.end(), value) != meant.end(), at,
                     "is not one of " + meant.dump());
    if (word == "const") return Require(value == meant, at, "is not " + meant.dump());
    if (word == "$ref")
      return Check(*FindReference(compiled_.root, meant.get_ref<const std::string&>()), value, at,
                   depth + 1);
    if (word == "allOf" || word == "anyOf" || word == "oneOf" || word == "not")
      return Combined(word, meant, value, at, depth);
    if (value.is_number()) return OfNumber(word, meant, value, at);
    if (value.is_string()) return OfText(word, meant, value.get_ref<const std::string&>(), at);
    if (value.is_array()) return OfList(word, meant, schema, value, at, depth);
    if (value.is_object()) return OfObject(word, meant, schema, value, at, depth);
    return OkStatus();
  }

  // Returns whether `value` fits `schema`, and kResourceExhausted as an error.
  Result<bool> Fits(const json& schema, const json& value, const std::string& at, int depth) {
    const Status status = Check(schema, value, at, depth + 1);
    if (status.code() == StatusCode::kResourceExhausted) return status;
    return status.ok();
  }

  Status Combined(const std::string& word, const json& meant, const json& value,
                  const std::string& at, int depth) {
    if (word == "not") {
      BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(meant, value, at, depth));
      return Require(!fits, at, "fits what 'not' names");
    }
    std::size_t fitting = 0;
    for (const json& schema : meant) {
      if (word == "allOf") BUTTRESS_RETURN_IF_ERROR(Check(schema, value, at, depth + 1));
      if (word == "allOf") continue;
      BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(schema, value, at, depth));
      fitting += fits ? 1 : 0;
    }
    const bool holds = word == "allOf" || (word == "anyOf" ? fitting > 0 : fitting == 1);
    return Require(holds, at, "fits " + std::to_string(fitting) + " alternatives of " + word);
  }

  static Status OfNumber(const std::string& word, const json& meant, const json& value,
                         const std::string& at) {
    const auto bound = [&](bool holds) {
      return Require(holds, at, "= " + value.dump() + " breaks " + word + " " + meant.dump());
    };
    if (word == "minimum") return bound(Number(value) >= Number(meant));
    if (word == "maximum") return bound(Number(value) <= Number(meant));
    if (word == "exclusiveMinimum") return bound(Number(value) > Number(meant));
    if (word == "exclusiveMaximum") return bound(Number(value) < Number(meant));
    if (word == "multipleOf") return bound(IsMultiple(value, meant));
    return OkStatus();
  }

  Status OfText(const std::string& word, const json& meant, const std::string& text,
                const std::string& at) const {
    if (word == "minLength")
      return Require(CodePoints(text) >= meant.get<std::uint64_t>(), at,
                     "is shorter than " + meant.dump());
    if (word == "maxLength")
      return Require(CodePoints(text) <= meant.get<std::uint64_t>(), at,
                     "is longer than " + meant.dump());
    if (word != "pattern") return OkStatus();
    const RE2& pattern = *compiled_.patterns.at(meant.get_ref<const std::string&>());
    return Require(RE2::PartialMatch(text, pattern), at, "does not match " + meant.dump());
  }

  Status OfList(const std::string& word, const json& meant, const json& schema, const json& list,
                const std::string& at, int depth) {
    if (word == "minItems")
      return Require(list.size() >= meant.get<std::uint64_t>(), at,
                     "has fewer than " + meant.dump() + " items");
    if (word == "maxItems")
      return Require(list.size() <= meant.get<std::uint64_t>(), at,
                     "has more than " + meant.dump() + " items");
    if (word == "uniqueItems")
      return Require(!meant.get<bool>() || AllDiffer(list), at, "has equal items");
    const std::size_t fixed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (word == "prefixItems") {
      for (std::size_t i = 0; i < std::min(fixed, list.size()); ++i)
        BUTTRESS_RETURN_IF_ERROR(Check(meant[i], list[i], at + "/" + std::to_string(i), depth + 1));
    } else if (word == "items") {
      for (std::size_t i = fixed; i < list.size(); ++i)
        BUTTRESS_RETURN_IF_ERROR(Check(meant, list[i], at + "/" + std::to_string(i), depth + 1));
    } else if (word == "contains") {
      for (const json& item : list) {
        BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(meant, item, at, depth));
        if (fits) return OkStatus();
      }
      return Require(false, at, "contains nothing that fits");
    }
    return OkStatus();
  }

  Status OfObject(const std::string& word, const json& meant, const json& schema,
                  const json& object, const std::string& at, int depth) {
    if (word == "minProperties")
      return Require(object.size() >= meant.get<std::uint64_t>(), at,
                     "has fewer than " + meant.dump() + " fields");
    if (word == "maxProperties")
      return Require(object.size() <= meant.get<std::uint64_t>(), at,
                     "has more than " + meant.dump() + " fields");
    if (word == "required") {
      for (const json& name : meant)
        BUTTRESS_RETURN_IF_ERROR(Require(object.contains(name.get_ref<const std::string&>()), at,
                                         "lacks " + name.dump()));
      return OkStatus();
    }
    if (word != "properties" && word != "additionalProperties" && word != "propertyNames")
      return OkStatus();
    for (const auto& [name, field] : object.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(name);
      const std::string where = at + "/" + name;
      if (word == "propertyNames")
        BUTTRESS_RETURN_IF_ERROR(Check(meant, json(name), where, depth + 1));
      if (word == "properties" && named)
        BUTTRESS_RETURN_IF_ERROR(Check(meant[name], field, where, depth + 1));
      if (word == "additionalProperties" && !named)
        BUTTRESS_RETURN_IF_ERROR(Check(meant, field, where, depth + 1));
    }
    return OkStatus();
  }

  const CompiledSchema& compiled_;
  int steps_ = 0;
};

}  // namespace

Result<JsonSchema> JsonSchema::Compile(json schema) {
  BUTTRESS_ASSIGN_OR_RETURN(CompiledSchema compiled, CompileSchema(std::move(schema)));
  return JsonSchema(std::make_shared<const CompiledSchema>(std::move(compiled)));
}

Status JsonSchema::Check(const json& value) const {
  return Checker(*compiled_).Check(compiled_->root, value, "", 0);
}

}  // namespace buttress
