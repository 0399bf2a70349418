#include "rollout_worker/openai/tokenize.h"

#include "rollout_worker/openai/fields.h"
#include "rollout_worker/openai/request.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

Status UnknownField(const std::string& name) {
  return InvalidArgument(name + " is not a field that this server knows; leave it out");
}

Status ReadTokenizeField(const std::string& name, const ordered_json& value, TokenizeRequest& to) {
  if (name == "model") return ReadField(name, value, to.model);
  if (name == "prompt") return ReadField(name, value, to.prompt);
  if (name == "add_special_tokens") return ReadField(name, value, to.add_special_tokens);
  if (name == "add_generation_prompt") return ReadField(name, value, to.add_generation_prompt);
  if (name == "tools") {
    to.tools = value;
    return value.is_array() ? OkStatus() : WrongField(name, value, "a list of tools");
  }
  if (name == "chat_template_kwargs")
    return ReadTemplateArguments(name, value, to.template_arguments);
  if (name != "messages") return UnknownField(name);
  BUTTRESS_ASSIGN_OR_RETURN(to.messages, TemplateMessages(value));
  return OkStatus();
}

}  // namespace

Result<TokenizeRequest> ParseTokenize(std::string_view body) {
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json parsed, ParseObject(body));
  TokenizeRequest request;
  for (const auto& [name, value] : parsed.items()) {
    if (!value.is_null()) BUTTRESS_RETURN_IF_ERROR(ReadTokenizeField(name, value, request));
  }
  if (MemberOf(parsed, "prompt").is_null() == request.messages.is_null())
    return InvalidArgument("prompt or messages; expected one of them");
  return request;
}

Result<DetokenizeRequest> ParseDetokenize(std::string_view body) {
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json parsed, ParseObject(body));
  DetokenizeRequest request;
  for (const auto& [name, value] : parsed.items()) {
    if (value.is_null()) continue;
    if (name != "model" && name != "tokens") return UnknownField(name);
    BUTTRESS_RETURN_IF_ERROR(name == "model" ? ReadField(name, value, request.model)
                                             : ReadIdsField(name, value, request.tokens));
  }
  if (!parsed.contains("tokens"))
    return InvalidArgument("tokens is missing; expected a list of token ids");
  return request;
}

}  // namespace buttress
