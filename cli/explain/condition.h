// Conditions on the summary of a report, with which a script decides: `acr > 0.6`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// A comparison of a number of the summary with a bound.
struct Condition {
  std::string text;  // as the user wrote it
  std::string name;  // path in {"summary": ...} of ReportJson, joined by dots: causes.never right
  std::string comparison;  // <, <=, > or >=
  double bound = 0;
};

// Parses NAME COMPARISON NUMBER. kInvalidArgument says what is wrong.
Result<Condition> ParseCondition(const std::string& text);

// Returns whether the condition holds. A number that is not known (null) holds nothing.
// kInvalidArgument if the summary has no such number, with the names that it has.
Result<bool> Holds(const Condition& condition, const nlohmann::ordered_json& summary);

}  // namespace buttress
