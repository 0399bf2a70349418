// JSON Schema (draft 2020-12), the part that says what a value is:
//
//   any      type, enum, const, allOf, anyOf, oneOf, not, true, false, $ref to "#", "#/$defs/NAME", "#/definitions/NAME"
//   number   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
//   string   minLength, maxLength (code points), pattern (RE2's syntax: linear time)
//   array    items, prefixItems, minItems, maxItems, uniqueItems, contains
//   object   properties, required, additionalProperties, minProperties, maxProperties, propertyNames
//
// Words that assert nothing are skipped: $schema, $id, $comment, $defs, definitions, title,
// description, default, examples, format, deprecated, readOnly, writeOnly. A schema with any other
// keyword is refused, because a constraint that is not looked at would pass.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/status.h"

namespace buttress {

// Thread-safe.
class JsonSchema {
 public:
  // kInvalidArgument names the place ("/properties/age") and what is wrong there.
  static Result<std::unique_ptr<JsonSchema>> Compile(nlohmann::json schema);

  virtual ~JsonSchema() = default;

  // OK if `value` is what the schema says; kInvalidArgument names the first place that is not;
  // kResourceExhausted after too many steps (a schema whose alternatives multiply), when nothing
  // can be said.
  virtual Status Check(const nlohmann::json& value) const = 0;
};

}  // namespace buttress
