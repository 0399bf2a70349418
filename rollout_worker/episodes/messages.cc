#include "rollout_worker/episodes/messages.h"

#include <fmt/core.h>

#include <utility>

#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

std::string DumpOf(const ordered_json& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ContentOf(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return "";
  return content->is_string() ? content->get<std::string>() : DumpOf(*content);
}

// The name and the arguments, wherever they are: OpenAI has them in "function".
const ordered_json& FunctionOf(const ordered_json& call) {
  const auto function = call.find("function");
  return function != call.end() && function->is_object() ? *function : call;
}

void ReadArguments(ordered_json& call) {
  if (!call.is_object()) return;
  ordered_json& function = const_cast<ordered_json&>(FunctionOf(call));
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || !arguments->is_string()) return;
  ordered_json read = ordered_json::parse(arguments->get_ref<const std::string&>(), nullptr, false);
  if (read.is_object()) *arguments = std::move(read);
}

}  // namespace

ordered_json MessageOf(const AssistantMessage& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}};
  for (const ToolCall& call : answer.calls) {
    message["tool_calls"].push_back(
        {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

Result<ordered_json> WithObjects(ordered_json messages) {
  if (!messages.is_array() || messages.empty())
    return InvalidArgument("'messages' is not a list of messages; expected one or more");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ordered_json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return InvalidArgument(fmt::format("messages[{}] has no role; expected an object", i));
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (ordered_json& call : *calls) ReadArguments(call);
  }
  return messages;
}

std::string KeyOf(const ordered_json& message) {
  const std::string content = ContentOf(message);
  std::string key = message["role"].get<std::string>() + '\n';
  key += IsAssistant(message) ? std::string(Trim(content)) : content;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return key;
  for (const ordered_json& call : *calls) {
    const ordered_json& function = FunctionOf(call);
    if (!function.is_object()) continue;
    key += '\n' + DumpOf(function.value("name", ordered_json())) +
           DumpOf(function.value("arguments", ordered_json()));
  }
  return key;
}

bool IsAssistant(const ordered_json& message) { return message["role"] == "assistant"; }

}  // namespace buttress
