// Reads calls that are written as a list of Python's: [f(a=1), g(b="x")].
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"

namespace buttress {

// Returns whether `text` begins as such a list.
bool BeginsPythonCalls(std::string_view text);

// Appends the calls of the list that `text` begins with to `calls` and returns its length in bytes.
// Arguments are named, and their values literals of Python: texts, numbers, True, False, None,
// lists, tuples, and dictionaries whose keys are texts. kInvalidArgument names the byte at which
// the list is something else; the calls before it are in `calls`. Linear in the text.
Result<std::size_t> ReadPythonCalls(std::string_view text, std::vector<ToolCall>& calls);

// Returns the literal of Python's that is all of `text`, as one of those values. kInvalidArgument
// otherwise. Linear in the text.
Result<nlohmann::ordered_json> ReadPythonLiteral(std::string_view text);

}  // namespace buttress
