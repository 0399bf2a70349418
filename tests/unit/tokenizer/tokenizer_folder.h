// Temporary folders with variants of the golden tokenizer.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/support/golden_file.h"

namespace buttress {

// Writes `bytes` to the file `name` in `folder`.
void WriteFileIn(const std::string& folder, const std::string& name, std::string_view bytes);

// Loads a folder that holds `tokenizer_json` and, unless it is empty, `tokenizer_config_json`.
Result<std::unique_ptr<Tokenizer>> LoadFrom(std::string_view tokenizer_json,
                                            std::string_view tokenizer_config_json = "");

// Returns the golden tokenizer.json with `patch` merged into it (RFC 7396).
nlohmann::json PatchedTokenizer(const nlohmann::json& patch);

}  // namespace buttress
