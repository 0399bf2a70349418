// Rows of the files that `buttress verify` scores.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct VerifyRow {
  std::string id;          // of the row, else its line number
  nlohmann::json json_id;  // the same as the row has it
  std::string prompt;
  std::string answer;
  std::vector<std::string> responses;
  std::vector<bool> labels;  // whether each is correct; empty if the row has none
  bool is_group = false;     // "responses" rather than "response"
  std::string json;          // the row
};

// {"id", "prompt", "answer", "response", "label"} or {"id", "prompt", "answer", "responses": [...],
// "labels": [...]}; id, prompt and labels may be missing. A label is true, false, 1, 0, "correct"
// or "wrong". kDataLoss names the line and the field.
Result<VerifyRow> ParseVerifyRow(const std::string& line, std::int64_t number);

}  // namespace buttress
