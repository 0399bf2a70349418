// Rows of the datasets that commands work on: {"id": ..., "token_ids": [...]} and the like.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct JsonRow {
  nlohmann::ordered_json fields;  // an object
  nlohmann::ordered_json id;      // its "id" with its JSON type; the line number if it has none
  std::int64_t line = 0;          // from 1
};

// Returns an id as a column shows it: a text as it is, any other value as JSON.
template <class Json>
std::string IdText(const Json& id) {
  return id.is_string() ? id.template get<std::string>() : id.dump();
}

// Calls `use` with each row of a dataset of any format (dataset.h), in order; blank lines are not
// rows. kInvalidArgument lists the rows that are not JSON objects or that `use` refuses, equal
// faults together (row_faults.h), or says that the file cannot be opened or has no rows.
Status ForEachJsonRow(const std::string& path, const std::function<Status(JsonRow row)>& use);

// Returns the field "token_ids", a list of one or more ids. kInvalidArgument names the id and its
// index if it is not a whole number in [0, vocab_size).
Result<std::vector<std::int32_t>> TokenIdsOf(const JsonRow& row, std::int64_t vocab_size);

}  // namespace buttress
