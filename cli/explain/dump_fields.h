// Reads the fields of a dump's rows, and counts those whose value is missing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// The field of a row; null if it is absent or null.
const nlohmann::json* FindField(const nlohmann::json& row, std::string_view field);

// kInvalidArgument with the field, its value and what is expected.
Status Unexpected(std::string_view field, const nlohmann::json& value, const std::string& expected);

// REQUIRES: a number, or true or false, which are 1 and 0.
double NumberOf(const nlohmann::json& value);

// Returns a text, a number as such, or the joined contents of a list of chat messages; "" if the
// field is absent or null. kInvalidArgument for anything else.
Result<std::string> ReadText(const nlohmann::json& row, std::string_view field);

// Sets `step` to the whole number of the field, if there is one.
Status ReadStep(const nlohmann::json& row, std::string_view field, const char* expected,
                std::optional<std::int64_t>& step);

// A field of a row that has no value where one is expected, and what follows from that.
struct Gap {
  std::string field;
  std::string_view meaning;
};

// Not thread-safe.
class Gaps {
 public:
  void Add(const std::vector<Gap>& gaps, const std::string& where);

  // A sentence for each field: "score is absent, empty, null, NaN or infinite in 2 rows, ...".
  std::vector<std::string> Remarks() const;

 private:
  struct Count {
    std::int64_t rows = 0;
    std::string first;
    std::string_view meaning;
  };

  std::map<std::string, Count> of_field_;
};

}  // namespace buttress
