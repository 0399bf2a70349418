// What the policy wrote in one answer, as the messages of a chat have it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace buttress {

// A tool call that the policy wrote.
struct ToolCall {
  std::string name;
  nlohmann::ordered_json arguments;  // an object
};

struct AssistantMessage {
  std::string content;                // the text beside the calls
  std::vector<ToolCall> calls = {};   // in order
  std::vector<std::string> bad = {};  // a reason for each call that does not parse
};

}  // namespace buttress
