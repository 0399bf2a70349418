#include "lib/verify/json_schema.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/anchors.h"
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {

struct CompiledSchema {
  nlohmann::json root;
  std::map<std::string, std::unique_ptr<RE2>> patterns;  // by their text
};

namespace {

using nlohmann::json;

constexpr int kMaxSteps = 1000000;
constexpr int kMaxDepth = 4 * kMaxJsonDepth;  // the value's own depth and references in between

// The type that the value of a keyword must have.
enum class Kind {
  kAny,
  kSchema,
  kSchemas,
  kSchemaMap,
  kNumber,
  kCount,
  kPattern,
  kTexts,
  kFlag,
  kTypes,
  kList,
  kReference
};

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

constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};

bool IsType(const json& value) {
  return value.is_string() &&
         std::ranges::find(kTypes, value.get_ref<const std::string&>()) != kTypes.end();
}

bool HasType(const json& value, const std::string& type) {
  if (type != "integer") return type == value.type_name();
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

bool HasOneType(const json& value, const json& types) {
  if (types.is_string()) return HasType(value, types);
  return std::ranges::any_of(types, [&](const json& type) { return HasType(value, type); });
}

long double CodePoints(const json& text) {
  return static_cast<long double>(
      std::ranges::count_if(text.get_ref<const std::string&>(),
                            [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

long double Size(const json& value) { return static_cast<long double>(value.size()); }

// Returns whether the measure of the value is on the right side of the bound `meant`.
template <auto measure, class Order>
bool Bounds(const json& value, const json& meant) {
  return Order()(measure(value), Number(meant));
}

using AtLeast = std::greater_equal<>;
using AtMost = std::less_equal<>;

bool IsOneOf(const json& value, const json& list) {
  return std::ranges::find(list, value) != list.end();
}

bool IsEqual(const json& value, const json& meant) { return value == meant; }

bool AllDiffer(const json& list, const json& must) {
  if (!must.get<bool>()) return true;
  std::vector<const json*> sorted;
  for (const json& item : list) sorted.push_back(&item);
  std::ranges::sort(sorted, [](const json* a, const json* b) { return *a < *b; });
  const auto equal = [](const json* a, const json* b) { return *a == *b; };
  return std::ranges::adjacent_find(sorted, equal) == sorted.end();
}

struct Keyword {
  std::string_view name;
  Kind kind = Kind::kAny;
  // Of a keyword without schemas inside: the values that it constrains (all if null), whether one
  // holds, and what is wrong with one that does not.
  bool (json::*constrains)() const noexcept = nullptr;
  bool (*holds)(const json& value, const json& meant) = nullptr;
  const char* complaint = "";  // of {0} the value, {1} the keyword and {2} what the schema gives it
};

constexpr auto kNumber = &json::is_number;
constexpr auto kText = &json::is_string;
constexpr auto kArray = &json::is_array;
constexpr auto kObject = &json::is_object;
constexpr char kBreaks[] = "= {0} breaks {1} {2}";

// The rows without `holds` are those of Checker's methods.
constexpr Keyword kKeywords[] = {
    {"type", Kind::kTypes, nullptr, HasOneType, "is not of type {2}"},
    {"enum", Kind::kList, nullptr, IsOneOf, "is not one of {2}"},
    {"const", Kind::kAny, nullptr, IsEqual, "is not {2}"},
    {"minimum", Kind::kNumber, kNumber, Bounds<Number, AtLeast>, kBreaks},
    {"maximum", Kind::kNumber, kNumber, Bounds<Number, AtMost>, kBreaks},
    {"exclusiveMinimum", Kind::kNumber, kNumber, Bounds<Number, std::greater<>>, kBreaks},
    {"exclusiveMaximum", Kind::kNumber, kNumber, Bounds<Number, std::less<>>, kBreaks},
    {"multipleOf", Kind::kNumber, kNumber, IsMultiple, kBreaks},
    {"minLength", Kind::kCount, kText, Bounds<CodePoints, AtLeast>, "is shorter than {2}"},
    {"maxLength", Kind::kCount, kText, Bounds<CodePoints, AtMost>, "is longer than {2}"},
    {"minItems", Kind::kCount, kArray, Bounds<Size, AtLeast>, "has fewer than {2} items"},
    {"maxItems", Kind::kCount, kArray, Bounds<Size, AtMost>, "has more than {2} items"},
    {"uniqueItems", Kind::kFlag, kArray, AllDiffer, "has equal items"},
    {"minProperties", Kind::kCount, kObject, Bounds<Size, AtLeast>, "has fewer than {2} fields"},
    {"maxProperties", Kind::kCount, kObject, Bounds<Size, AtMost>, "has more than {2} fields"},
    {"allOf", Kind::kSchemas},
    {"anyOf", Kind::kSchemas},
    {"oneOf", Kind::kSchemas},
    {"not", Kind::kSchema},
    {"$ref", Kind::kReference},
    {"pattern", Kind::kPattern},
    {"items", Kind::kSchema},
    {"prefixItems", Kind::kSchemas},
    {"contains", Kind::kSchema},
    {"properties", Kind::kSchemaMap},
    {"required", Kind::kTexts},
    {"additionalProperties", Kind::kSchema},
    {"propertyNames", Kind::kSchema},
    {"$defs", Kind::kSchemaMap},
    {"definitions", Kind::kSchemaMap},
};

// Keywords that assert nothing.
constexpr std::string_view kIgnored[] = {"$schema",     "$id",      "$comment", "title",
                                         "description", "default",  "examples", "format",
                                         "deprecated",  "readOnly", "writeOnly"};

// Returns the row of a keyword that asserts something, else null.
const Keyword* FindKeyword(std::string_view name) {
  const auto* const keyword = std::ranges::find(kKeywords, name, &Keyword::name);
  return keyword == std::end(kKeywords) ? nullptr : keyword;
}

// Returns the schema in `root` that the $ref `reference` points to; null if there is none.
const json* FindReference(const json& root, const std::string& reference) {
  if (reference == "#") return &root;
  for (const std::string folder : {"$defs", "definitions"}) {
    const std::string prefix = "#/" + folder + "/";
    if (!reference.starts_with(prefix) || !root.is_object() || !root.contains(folder)) continue;
    const json& schemas = root[folder];
    const auto found =
        schemas.is_object() ? schemas.find(reference.substr(prefix.size())) : schemas.end();
    return found == schemas.end() ? nullptr : &*found;
  }
  return nullptr;
}

Status At(const std::string& at, const std::string& what) {
  return InvalidArgument(fmt::format("schema at '{}': {}", at.empty() ? "/" : at, what));
}

// Checks the types of a schema's keywords and compiles its patterns.
class Compiler {
 public:
  explicit Compiler(CompiledSchema& out) : out_(out) {}

  Status Schema(const json& schema, const std::string& at) {
    if (schema.is_boolean()) return OkStatus();
    if (!schema.is_object()) return At(at, "expected a schema: an object, true or false");
    for (const auto& [name, value] : schema.items()) {
      if (std::ranges::find(kIgnored, name) != std::end(kIgnored)) continue;
      const Keyword* const keyword = FindKeyword(name);
      if (keyword == nullptr)
        return At(at, "keyword '" + name +
                          "' is not supported (lib/verify/json_schema.h lists those that are)");
      BUTTRESS_RETURN_IF_ERROR(Value(keyword->kind, value, at + "/" + name));
    }
    return OkStatus();
  }

 private:
  Status Value(Kind kind, const json& value, const std::string& at) {
    const auto require = [&](bool holds, const char* what) {
      return holds ? OkStatus() : At(at, what);
    };
    const auto all = [&](auto is) { return value.is_array() && std::ranges::all_of(value, is); };
    switch (kind) {
      case Kind::kAny:
        return OkStatus();
      case Kind::kSchema:
        return Schema(value, at);
      case Kind::kSchemas:
      case Kind::kSchemaMap:
        return Schemas(kind, value, at);
      case Kind::kNumber:
        return require(
            value.is_number() && (!at.ends_with("/multipleOf") || value.get<double>() > 0),
            "expected a number, above 0 for multipleOf");
      case Kind::kCount:
        return require(value.is_number_unsigned(), "expected an integer, 0 or more");
      case Kind::kPattern:
        return Pattern(value, at);
      case Kind::kTexts:
        return require(all([](const json& item) { return item.is_string(); }),
                       "expected a list of texts");
      case Kind::kFlag:
        return require(value.is_boolean(), "expected true or false");
      case Kind::kTypes:
        return require(IsType(value) || all(IsType), "no type, or list of types");
      case Kind::kList:
        return require(value.is_array() && !value.empty(), "expected a list");
      case Kind::kReference:
        return require(value.is_string() &&
                           FindReference(out_.root, value.get_ref<const std::string&>()) != nullptr,
                       "points to nothing in this document ('#', '#/$defs/NAME' and "
                       "'#/definitions/NAME' are followed)");
    }
    return OkStatus();
  }

  Status Schemas(Kind kind, const json& value, const std::string& at) {
    const bool map = kind == Kind::kSchemaMap;
    if (map && !value.is_object()) return At(at, "expected an object of schemas");
    if (!map && (!value.is_array() || value.empty())) return At(at, "expected a list of schemas");
    for (const auto& [name, schema] : value.items())  // the names of a list are its indices
      BUTTRESS_RETURN_IF_ERROR(Schema(schema, at + "/" + name));
    return OkStatus();
  }

  Status Pattern(const json& value, const std::string& at) {
    if (!value.is_string()) return At(at, "expected a text");
    const auto& text = value.get_ref<const std::string&>();
    auto pattern = std::make_unique<RE2>(text, RE2::Quiet);
    if (!pattern->ok())
      return At(at, "'" + text + "' is not a pattern of RE2: " + pattern->error());
    out_.patterns[text] = std::move(pattern);
    return OkStatus();
  }

  CompiledSchema& out_;
};

// A value, or a part of it, that is checked.
struct Place {
  const json& value;
  std::string at;  // "/a/0"
  int depth = 0;

  Place Inside(const json& part, const std::string& name) const {
    return {part, at + "/" + name, depth + 1};
  }
};

// Checks one value against one schema.
class Checker {
 public:
  explicit Checker(const CompiledSchema& compiled) : compiled_(compiled) {}

  Status Check(const json& schema, const Place& place) {
    if (++steps_ > kMaxSteps || place.depth > kMaxDepth)
      return ResourceExhausted("the schema takes too many steps at '" + place.at + "'");
    if (schema.is_boolean()) return Require(schema.get<bool>(), place, "is not allowed");
    for (const auto& [name, meant] : schema.items())
      BUTTRESS_RETURN_IF_ERROR(Apply(name, meant, schema, place));
    return OkStatus();
  }

 private:
  static Status Require(bool holds, const Place& place, const std::string& what) {
    if (holds) return OkStatus();
    return InvalidArgument(fmt::format("'{}' {}", place.at.empty() ? "/" : place.at, what));
  }

  Status Apply(const std::string& word, const json& meant, const json& schema, const Place& place) {
    const json& value = place.value;
    const Keyword* const found = FindKeyword(word);
    if (found == nullptr) return OkStatus();
    const Keyword& keyword = *found;
    if (keyword.holds != nullptr) {
      const bool applies = keyword.constrains == nullptr || (value.*keyword.constrains)();
      if (!applies || keyword.holds(value, meant)) return OkStatus();
      return Require(false, place,
                     fmt::format(fmt::runtime(keyword.complaint),
                                 value.is_number() ? value.dump() : "", word, meant.dump()));
    }
    if (word == "$ref")
      return Check(*FindReference(compiled_.root, meant.get_ref<const std::string&>()),
                   {value, place.at, place.depth + 1});
    if (keyword.kind == Kind::kSchemas && word != "prefixItems")
      return Combined(word, meant, place);
    if (word == "not") {
      BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(meant, place));
      return Require(!fits, place, "fits what 'not' names");
    }
    if (word == "pattern" && value.is_string()) {
      const RE2& pattern = *compiled_.patterns.at(meant.get_ref<const std::string&>());
      return Require(RE2::PartialMatch(value.get_ref<const std::string&>(), pattern), place,
                     "does not match " + meant.dump());
    }
    if (value.is_array()) return OfList(word, meant, schema, place);
    if (value.is_object()) return OfObject(word, meant, schema, place);
    return OkStatus();
  }

  // Returns whether the value fits `schema`, and kResourceExhausted as an error.
  Result<bool> Fits(const json& schema, const Place& place) {
    const Status status = Check(schema, {place.value, place.at, place.depth + 1});
    if (status.code() == StatusCode::kResourceExhausted) return status;
    return status.ok();
  }

  Status Combined(const std::string& word, const json& meant, const Place& place) {
    std::size_t fitting = 0;
    for (const json& schema : meant) {
      if (word == "allOf") {
        BUTTRESS_RETURN_IF_ERROR(Check(schema, {place.value, place.at, place.depth + 1}));
      } else {
        BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(schema, place));
        fitting += fits ? 1 : 0;
      }
    }
    const bool holds = word == "allOf" || (word == "anyOf" ? fitting > 0 : fitting == 1);
    return Require(holds, place, "fits " + std::to_string(fitting) + " alternatives of " + word);
  }

  Status OfList(const std::string& word, const json& meant, const json& schema,
                const Place& place) {
    const json& list = place.value;
    const std::size_t fixed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (word == "prefixItems" || word == "items") {
      const bool prefix = word == "prefixItems";
      const std::size_t end = prefix ? std::min(fixed, list.size()) : list.size();
      for (std::size_t i = prefix ? 0 : fixed; i < end; ++i)
        BUTTRESS_RETURN_IF_ERROR(
            Check(prefix ? meant[i] : meant, place.Inside(list[i], std::to_string(i))));
    } else if (word == "contains") {
      for (const json& item : list) {
        BUTTRESS_ASSIGN_OR_RETURN(const bool fits, Fits(meant, {item, place.at, place.depth}));
        if (fits) return OkStatus();
      }
      return Require(false, place, "contains nothing that fits");
    }
    return OkStatus();
  }

  Status OfObject(const std::string& word, const json& meant, const json& schema,
                  const Place& place) {
    if (word == "required") {
      for (const json& name : meant)
        BUTTRESS_RETURN_IF_ERROR(Require(place.value.contains(name.get_ref<const std::string&>()),
                                         place, "lacks " + name.dump()));
      return OkStatus();
    }
    if (word != "properties" && word != "additionalProperties" && word != "propertyNames")
      return OkStatus();
    for (const auto& [name, field] : place.value.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(name);
      if (word == "propertyNames")
        BUTTRESS_RETURN_IF_ERROR(Check(meant, place.Inside(json(name), name)));
      if (word == "properties" && named)
        BUTTRESS_RETURN_IF_ERROR(Check(meant[name], place.Inside(field, name)));
      if (word == "additionalProperties" && !named)
        BUTTRESS_RETURN_IF_ERROR(Check(meant, place.Inside(field, name)));
    }
    return OkStatus();
  }

  const CompiledSchema& compiled_;
  int steps_ = 0;
};

}  // namespace

Result<JsonSchema> JsonSchema::Compile(json schema) {
  auto compiled = std::make_shared<CompiledSchema>();
  compiled->root = std::move(schema);
  BUTTRESS_RETURN_IF_ERROR(Compiler(*compiled).Schema(compiled->root, ""));
  return JsonSchema(std::move(compiled));
}

Status JsonSchema::Check(const json& value) const {
  return Checker(*compiled_).Check(compiled_->root, {value, "", 0});
}

Verdict JudgeJsonSchema(const VerifyRequest& request, const RewardConfig& /*config*/) {
  Result<json> document = ParseBoundedJson(Trim(request.answer));
  if (!document.ok())
    return Unscorable("answer: " + document.status().message() + "; expected a JSON schema");
  const Result<JsonSchema> schema = JsonSchema::Compile(*std::move(document));
  if (!schema.ok()) return Unscorable("answer: " + schema.status().message());
  const auto tagged = InAnswerTags(request.response);
  const auto fenced = InLastFence(request.response, "json");
  const std::string_view text = tagged ? *tagged : Trim(fenced ? *fenced : request.response);
  const std::string shown(FirstBytes(text, kShownBytes));
  const Result<json> value = ParseBoundedJson(text);
  const Status status = value.ok() ? schema->Check(*value) : value.status();
  if (status.code() == StatusCode::kResourceExhausted)
    return Unscorable("answer: " + status.message());
  Verdict verdict = status.ok() ? Correct(shown, "") : Wrong(shown, status.message());
  verdict.anchor = tagged ? "tags" : fenced ? "fence" : "whole";
  return verdict;
}

}  // namespace buttress
