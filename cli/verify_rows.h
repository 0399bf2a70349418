// Rows of the files that `buttress verify` and `buttress audit-verifier` read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct VerifyRow {
  std::string id;          // the row's "id" as text, or its line number
  nlohmann::json json_id;  // the row's "id" with its JSON type
  std::string prompt;
  std::string answer;
  std::vector<std::string> responses;
  std::vector<bool> labels;  // whether each is correct; empty if the row has none
  bool is_group = false;     // the row has "responses" instead of "response"
  std::string json;          // the line
};

// Parses {"id", "prompt", "answer", "response", "label"} or {"id", "prompt", "answer",
// "responses": [...], "labels": [...]}. The fields id, prompt and labels are optional. A label is
// true, false, 1, 0, "correct" or "wrong". kDataLoss names the line and the field.
Result<VerifyRow> ParseVerifyRow(const std::string& line, std::int64_t number);

}  // namespace buttress
