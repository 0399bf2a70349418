// JSON Schema (draft 2020-12), and verifier json_schema: its reference answer is a schema, and the
// value is the text in <answer> tags, else in the last ```json fence, else the whole response.
//
// The keywords that constrain a value:
//
//   any      type, enum, const, allOf, anyOf, oneOf, not, true, false,
//            $ref to "#", "#/$defs/NAME" or "#/definitions/NAME"
//   number   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
//   string   minLength, maxLength (code points), pattern (RE2's syntax: linear time)
//   array    items, prefixItems, minItems, maxItems, uniqueItems, contains
//   object   properties, required, additionalProperties, minProperties, maxProperties,
//            propertyNames
//
// Keywords that assert nothing are ignored: $schema, $id, $comment, $defs, definitions, title,
// description, default, examples, format, deprecated, readOnly, writeOnly. A schema with any other
// keyword is refused, because a constraint that is not checked would always hold.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct CompiledSchema;

// Copies share the compiled form. Thread-safe.
class JsonSchema {
 public:
  // Returns kInvalidArgument with the place ("/properties/age") and what is wrong there.
  static Result<JsonSchema> Compile(nlohmann::json schema);

  // Returns OK if `value` fits the schema, kInvalidArgument with the first place that does not fit,
  // and kResourceExhausted if the check takes too many steps, as with a schema whose alternatives
  // multiply; whether the value fits is then unknown.
  Status Check(const nlohmann::json& value) const;

 private:
  explicit JsonSchema(std::shared_ptr<const CompiledSchema> compiled)
      : compiled_(std::move(compiled)) {}

  std::shared_ptr<const CompiledSchema> compiled_;
};

}  // namespace buttress
