#include "lib/data/text_encoder.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/text/bounded_json.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

Status CheckMessage(const ordered_json& message) {
  if (!message.is_object()) return InvalidArgument("expected an object with role and content");
  for (const char* key : {"role", "content"}) {
    const auto found = message.find(key);
    const bool absent = found == message.end() || found->is_null();
    // A message that only calls tools has no content.
    if (absent && key == std::string_view("content") && message.contains("tool_calls")) continue;
    if (absent) return InvalidArgument(fmt::format("no {}", key));
    if (!found->is_string())
      return InvalidArgument(fmt::format("{} is {}, expected text", key, found->type_name()));
  }
  return OkStatus();
}

Status CheckMessages(const ordered_json& messages) {
  if (!messages.is_array() || messages.empty())
    return InvalidArgument("contains no messages; expected a list of {\"role\", \"content\"}");
  for (std::size_t i = 0; i < messages.size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(CheckMessage(messages[i]).Annotate("message " + std::to_string(i)));
  return OkStatus();
}

}  // namespace

Result<TextEncoder> TextEncoder::Create(const Tokenizer& tokenizer,
                                        const std::map<std::string, std::string>& arguments) {
  TextEncoder encoder(tokenizer);
  if (tokenizer.chat_template().empty()) {
    if (arguments.empty()) return encoder;
    return InvalidArgument(
        "template_arguments are set, but the model has no chat template; leave them out, or give "
        "the model one in chat_template.jinja");
  }
  BUTTRESS_ASSIGN_OR_RETURN(encoder.chat_template_, ChatTemplate::Parse(tokenizer.chat_template()));
  for (const auto& [role, token] : tokenizer.special_tokens()) encoder.variables_[role] = token;
  for (const auto& [name, text] : arguments) {
    if (name == "messages" || name == "add_generation_prompt")
      return InvalidArgument("template_arguments: '" + name +
                             "' is set for each prompt; leave it out");
    if (NestedDeeper(text))
      return InvalidArgument("template_arguments: '" + name + "' is nested too deeply");
    ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    encoder.variables_[name] = value.is_discarded() ? ordered_json(text) : std::move(value);
  }
  return encoder;
}

Result<std::vector<std::int32_t>> TextEncoder::EncodeText(std::string_view text) const {
  BUTTRESS_ASSIGN_OR_RETURN(auto tokens, tokenizer_->Encode(text));
  return tokenizer_->AddSpecialTokens(std::move(tokens));
}

Result<std::string> TextEncoder::RenderMessages(const ordered_json& messages,
                                                bool add_generation_prompt,
                                                const ordered_json& tools) const {
  BUTTRESS_RETURN_IF_ERROR(CheckMessages(messages));
  if (!chat_template_)
    return InvalidArgument(
        "is a list of messages, but the model has no chat template; use text, or give the model "
        "one in chat_template.jinja");
  ordered_json variables = variables_;
  if (!tools.is_null()) variables["tools"] = tools;
  return chat_template_->Render(messages, add_generation_prompt, variables);
}

Result<std::vector<std::int32_t>> TextEncoder::EncodeMessages(const ordered_json& messages,
                                                              bool add_generation_prompt,
                                                              const ordered_json& tools) const {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text,
                            RenderMessages(messages, add_generation_prompt, tools));
  return tokenizer_->Encode(text);
}

Result<std::vector<std::int32_t>> TextEncoder::EncodeRow(const JsonRow& row,
                                                         const RowEncoding& encoding) const {
  const auto text = row.fields.find("text");
  const auto messages = row.fields.find("messages");
  const bool has_text = text != row.fields.end();
  if (has_text == (messages != row.fields.end()))
    return InvalidArgument("expected one of 'text' and 'messages'");
  const ordered_json tools = row.fields.value("tools", ordered_json());
  if (!has_text) {
    if (!tools.is_null() && !tools.is_array())
      return InvalidArgument(fmt::format("'tools' is {}; expected a list", tools.type_name()));
    auto tokens = EncodeMessages(*messages, encoding.add_generation_prompt, tools);
    return tokens.ok() ? std::move(tokens) : tokens.status().Annotate("'messages'");
  }
  if (!tools.is_null())
    return InvalidArgument("'tools' next to 'text'; a chat template reads messages");
  if (!text->is_string())
    return InvalidArgument(fmt::format("'text' is {}; expected a string", text->type_name()));
  const std::string& content = text->get_ref<const std::string&>();
  return encoding.add_special_tokens ? EncodeText(content) : tokenizer_->Encode(content);
}

}  // namespace buttress
