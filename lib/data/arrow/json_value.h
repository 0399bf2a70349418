// Values of Arrow columns as JSON.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "lib/base/report/status.h"

namespace buttress {

// Checks that JSON has a form for the values of a type, down to its innermost fields.
// kInvalidArgument names the type.
Status CheckHasJson(const arrow::DataType& type);

// Returns value `row` of `column`: lists as lists, structs and maps as objects, dates and times and
// decimals as texts, NaN and infinities as null. REQUIRES: CheckHasJson(*column.type()).
Result<nlohmann::ordered_json> JsonAt(const arrow::Array& column, std::int64_t row);

}  // namespace buttress
