// Compiles a JSON schema: checks the types of its keywords and compiles its patterns.
#pragma once

#include <re2/re2.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct CompiledSchema {
  nlohmann::json root;
  std::map<std::string, std::unique_ptr<RE2>> patterns;  // by their text
};

// Returns kInvalidArgument with the place in the schema that is not supported or not valid.
Result<CompiledSchema> CompileSchema(nlohmann::json schema);

// Returns the schema in `root` that the $ref `reference` ("#", "#/$defs/NAME" or
// "#/definitions/NAME") points to; null if there is none.
const nlohmann::json* FindReference(const nlohmann::json& root, const std::string& reference);

}  // namespace buttress
