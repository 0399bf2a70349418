// A schema's keywords, their types checked, its patterns compiled.
#pragma once

#include <re2/re2.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/status.h"

namespace buttress {

struct CompiledSchema {
  nlohmann::json root;
  std::map<std::string, std::unique_ptr<RE2>> patterns;  // by their text
};

Result<CompiledSchema> CompileSchema(nlohmann::json schema);

// What the $ref `reference` ("#", "#/$defs/NAME", "#/definitions/NAME") of a schema in `root`
// points to; null if nothing.
const nlohmann::json* FindReference(const nlohmann::json& root, const std::string& reference);

}  // namespace buttress
