// Reads calls whose arguments stand between tags, as texts: those of Qwen3-Coder and Qwen 3.5
//
//   <function=NAME>                                and of GLM 4.5:
//   <parameter=ARGUMENT>                             NAME
//   VALUE                                            <arg_key>ARGUMENT</arg_key>
//   </parameter>                                     <arg_value>VALUE</arg_value>
//   </function>
//
// The description of a tool says of what type an argument is, as in vLLM. A declared string stays
// as it is. null, integers, numbers, booleans, lists and objects are read as JSON or as literals of
// Python; a text that is none of the declared types stays a text, so that the tool says what is
// wrong. Without a declared type an argument of GLM is whatever it reads as, one of Qwen a text.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"

namespace buttress {

// Appends the functions that `body` consists of to `calls`. kInvalidArgument, with what is wrong,
// for one that is something else or has no end; those before it are in `calls`. `tools` are
// descriptions as OpenAI's, or null. Linear in the body.
Status ReadQwenCalls(std::string_view body, const nlohmann::ordered_json& tools,
                     std::vector<ToolCall>& calls);

// The same for the one call that `body` consists of.
Status ReadGlmCall(std::string_view body, const nlohmann::ordered_json& tools,
                   std::vector<ToolCall>& calls);

}  // namespace buttress
