#include "lib/verify/json/compile_schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace buttress {
namespace {

using nlohmann::json;

// The type that the value of a keyword must have.
enum class Kind {
  kSkipped,
  kSchema,
  kSchemas,
  kSchemaMap,
  kNumber,
  kCount,
  kPattern,
  kTexts,
  kFlag,
  kTypes,
  kAny,
  kList,
  kReference
};

struct Keyword {
  std::string_view name;
  Kind kind;
};

constexpr Keyword kKeywords[] = {
    {"type", Kind::kTypes},
    {"enum", Kind::kList},
    {"const", Kind::kAny},
    {"allOf", Kind::kSchemas},
    {"anyOf", Kind::kSchemas},
    {"oneOf", Kind::kSchemas},
    {"not", Kind::kSchema},
    {"$ref", Kind::kReference},
    {"minimum", Kind::kNumber},
    {"maximum", Kind::kNumber},
    {"exclusiveMinimum", Kind::kNumber},
    {"exclusiveMaximum", Kind::kNumber},
    {"multipleOf", Kind::kNumber},
    {"minLength", Kind::kCount},
    {"maxLength", Kind::kCount},
    {"pattern", Kind::kPattern},
    {"items", Kind::kSchema},
    {"prefixItems", Kind::kSchemas},
    {"minItems", Kind::kCount},
    {"maxItems", Kind::kCount},
    {"uniqueItems", Kind::kFlag},
    {"contains", Kind::kSchema},
    {"properties", Kind::kSchemaMap},
    {"required", Kind::kTexts},
    {"additionalProperties", Kind::kSchema},
    {"minProperties", Kind::kCount},
    {"maxProperties", Kind::kCount},
    {"propertyNames", Kind::kSchema},
    {"$defs", Kind::kSchemaMap},
    {"definitions", Kind::kSchemaMap},
    {"$schema", Kind::kSkipped},
    {"$id", Kind::kSkipped},
    {"$comment", Kind::kSkipped},
    {"title", Kind::kSkipped},
    {"description", Kind::kSkipped},
    {"default", Kind::kSkipped},
    {"examples", Kind::kSkipped},
    {"format", Kind::kSkipped},
    {"deprecated", Kind::kSkipped},
    {"readOnly", Kind::kSkipped},
    {"writeOnly", Kind::kSkipped},
};

constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};

bool IsType(const json& value) {
  return value.is_string() && std::find(kTypes.begin(), kTypes.end(),
                                        value.get_ref<const std::string&>()) != kTypes.end();
}

bool AllTexts(const json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& item) { return item.is_string(); });
}

class Compiler {
 public:
  explicit Compiler(CompiledSchema& out) : out_(out) {}

  Status Schema(const json& schema, const std::string& at) {
    if (schema.is_boolean()) return OkStatus();
    if (!schema.is_object()) return Wrong(at, "expected a schema: an object, true or false");
    for (const auto& [name, value] : schema.items()) {
      const auto* const keyword =
          std::find_if(std::begin(kKeywords), std::end(kKeywords),
                       [&name = name](const Keyword& k) { return k.name == name; });
      if (keyword == std::end(kKeywords))
        return Wrong(at, "keyword '" + name +
                             "' is not supported (lib/verify/json/schema.h lists those that are)");
      BUTTRESS_RETURN_IF_ERROR(Value(keyword->kind, value, at + "/" + name));
    }
    return OkStatus();
  }

 private:
  static Status Wrong(const std::string& at, const std::string& what) {
    return InvalidArgument(fmt::format("schema at '{}': {}", at.empty() ? "/" : at, what));
  }

  Status Value(Kind kind, const json& value, const std::string& at) {
    const auto require = [&](bool holds, const char* what) {
      return holds ? OkStatus() : Wrong(at, what);
    };
    switch (kind) {
      case Kind::kSchema:
        return Schema(value, at);
      case Kind::kSchemas:
        return Schemas(value, at);
      case Kind::kSchemaMap:
        return SchemaMap(value, at);
      case Kind::kNumber:
        return require(
            value.is_number() && (!at.ends_with("/multipleOf") || value.get<double>() > 0),
            "expected a number, above 0 for multipleOf");
      case Kind::kCount:
        return require(value.is_number_unsigned(), "expected an integer, 0 or more");
      case Kind::kPattern:
        return Pattern(value, at);
      case Kind::kTexts:
        return require(AllTexts(value), "expected a list of texts");
      case Kind::kFlag:
        return require(value.is_boolean(), "expected true or false");
      case Kind::kTypes:
        return require(
            IsType(value) || (AllTexts(value) && std::all_of(value.begin(), value.end(), IsType)),
            "no type, or list of types");
      case Kind::kList:
        return require(value.is_array() && !value.empty(), "expected a list");
      case Kind::kReference:
        return require(value.is_string() &&
                           FindReference(out_.root, value.get_ref<const std::string&>()) != nullptr,
                       "points to nothing in this document ('#', '#/$defs/NAME' and "
                       "'#/definitions/NAME' are followed)");
      default:
        return OkStatus();
    }
  }

  Status Schemas(const json& value, const std::string& at) {
    if (!value.is_array() || value.empty()) return Wrong(at, "expected a list of schemas");
    for (std::size_t i = 0; i < value.size(); ++i)
      BUTTRESS_RETURN_IF_ERROR(Schema(value[i], at + "/" + std::to_string(i)));
    return OkStatus();
  }

  Status SchemaMap(const json& value, const std::string& at) {
    if (!value.is_object()) return Wrong(at, "expected an object of schemas");
    for (const auto& [name, schema] : value.items())
      BUTTRESS_RETURN_IF_ERROR(Schema(schema, at + "/" + name));
    return OkStatus();
  }

  Status Pattern(const json& value, const std::string& at) {
    if (!value.is_string()) return Wrong(at, "expected a text");
    const auto& text = value.get_ref<const std::string&>();
    RE2::Options options;
    options.set_log_errors(false);
    auto pattern = std::make_unique<RE2>(text, options);
    if (!pattern->ok())
      return Wrong(at, "'" + text + "' is not a pattern of RE2: " + pattern->error());
    out_.patterns[text] = std::move(pattern);
    return OkStatus();
  }

  CompiledSchema& out_;
};

}  // namespace

Result<CompiledSchema> CompileSchema(json schema) {
  CompiledSchema compiled;
  compiled.root = std::move(schema);
  BUTTRESS_RETURN_IF_ERROR(Compiler(compiled).Schema(compiled.root, ""));
  return compiled;
}

const json* FindReference(const json& root, const std::string& reference) {
  if (reference == "#") return &root;
  for (const std::string_view folder : {"$defs", "definitions"}) {
    const std::string prefix = "#/" + std::string(folder) + "/";
    if (!reference.starts_with(prefix) || !root.is_object() || !root.contains(folder)) continue;
    const json& schemas = root[folder];
    const auto found =
        schemas.is_object() ? schemas.find(reference.substr(prefix.size())) : schemas.end();
    return found == schemas.end() ? nullptr : &*found;
  }
  return nullptr;
}

}  // namespace buttress
