// Reads the tool calls out of a text of the policy, in the formats of the model families.
#pragma once

#include <string>
#include <string_view>

#include "lib/chat/message.h"
#include "lib/config/sections/env_config.h"

namespace buttress {

// Returns the format that a chat template shows: the first whose mark is in it; hermes where none
// is. Pure.
ToolFormat FormatOf(std::string_view chat_template);

// Returns what an answer says behind its thoughts: behind the last "</think>", and nothing where
// they were cut. Pure.
std::string_view BehindThoughts(std::string_view text);

// Splits `text`, an answer without special tokens, into content and calls. A call that does not
// parse, or whose arguments are no object, is none of the calls and has its reason in `bad`.
// `tools` are the descriptions of those that the policy has, or null: they say of what type the
// arguments are in a format that does not show it (qwen, glm). Pure, in time linear in the text.
// REQUIRES: `format` is not kAuto.
AssistantMessage ReadAnswer(std::string_view text, ToolFormat format,
                            const nlohmann::ordered_json& tools = nullptr);

// Returns what an answer begins with that is a call of the tool `name`, or, if that is empty, of
// any: as far as a model would end a token there. Pure. REQUIRES: as above.
std::string OpeningOfCall(ToolFormat format, const std::string& name);

}  // namespace buttress
