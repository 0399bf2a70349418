// The fields of a row of `buttress generate` that say how it is sampled.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/data/json_rows.h"
#include "lib/experience/types.h"

namespace buttress {

// Returns "temperature, top_p, ...".
std::string SamplingFieldNames();

// kInvalidArgument for a field that is neither a prompt, the id nor a sampling field, because a
// misspelt field would be ignored, and for a row with several prompts.
Status CheckFields(const JsonRow& row);

// Replaces the values of `sampling` that the row has. kInvalidArgument names a field of the wrong
// type or range.
Status ReadSamplingFields(const JsonRow& row, SamplingParams& sampling);

}  // namespace buttress
