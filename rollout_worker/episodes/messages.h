// Messages of a chat in OpenAI's form, as conversations compare them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"

namespace buttress {

// Returns the message that `answer` is in a conversation; arguments are objects.
nlohmann::ordered_json MessageOf(const AssistantMessage& answer);

// Returns `messages` with arguments of tool calls as objects where they are texts of one, which is
// how a client has them and a chat template does not. kInvalidArgument for a list that is empty or
// has an element without a role.
Result<nlohmann::ordered_json> WithObjects(nlohmann::ordered_json messages);

// Returns a text that is equal for messages with the same role, content and tool calls (names and
// arguments). White space around the content of an assistant does not count, because clients strip
// it. REQUIRES: WithObjects returned it.
std::string KeyOf(const nlohmann::ordered_json& message);

bool IsAssistant(const nlohmann::ordered_json& message);

}  // namespace buttress
