#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "lib/data/prompt_file.h"

namespace buttress {
namespace {

using nlohmann::json;

// A row is copied and printed recursively, so its depth is bounded.
constexpr int kMaxDepth = 64;

Result<json> ParseObject(std::string_view row) {
  bool too_deep = false;
  const auto guard = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  json object = json::parse(row.begin(), row.end(), guard, /*allow_exceptions=*/false);
  if (too_deep) {
    return InvalidArgument("nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }
  if (object.is_discarded()) return InvalidArgument("not JSON");
  if (!object.is_object()) {
    return InvalidArgument("expected an object, found " + std::string(object.type_name()));
  }
  return object;
}

// Returns a field that must be a text or an integer: an id or a source.
Result<std::string> NameField(const json& row, const std::string& field,
                              const std::string& if_absent) {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) return if_absent;
  if (found->is_number_integer()) return found->dump();
  if (!found->is_string()) {
    return InvalidArgument("'" + field + "': expected text, found " + found->type_name());
  }
  const std::string& name = found->get_ref<const std::string&>();
  if (name.empty()) return InvalidArgument("'" + field + "' is empty");
  return name;
}

Status CheckMessages(const json& messages, const std::string& field) {
  if (messages.empty()) return InvalidArgument("'" + field + "' contains no messages");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    const std::string where = "'" + field + "', message " + std::to_string(i);
    if (!message.is_object()) {
      return InvalidArgument(where + ": expected an object with role and content");
    }
    for (const char* key : {"role", "content"}) {
      const auto found = message.find(key);
      if (found == message.end()) return InvalidArgument(fmt::format("{}: no {}", where, key));
      if (!found->is_string()) {
        return InvalidArgument(where + ": " + key + " is " + found->type_name() +
                               ", expected text");
      }
    }
  }
  return OkStatus();
}

json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Result<PromptParser> PromptParser::Create(const DataConfig& config, const Tokenizer& tokenizer) {
  PromptParser parser(config, tokenizer);
  if (!config.system_prompt.empty() && !config.chat_template) {
    return InvalidArgument(
        "run.data.system_prompt is set but run.data.chat_template is false; a system message needs "
        "the chat template");
  }
  if (tokenizer.chat_template().empty()) {
    if (!config.chat_template) return parser;
    return InvalidArgument(
        "run.data.chat_template is true, but the model has no chat template; set it to false or "
        "give the model one");
  }
  BUTTRESS_ASSIGN_OR_RETURN(parser.chat_template_, ChatTemplate::Parse(tokenizer.chat_template()));
  if (const std::int32_t eos = tokenizer.eos_token_id(); eos >= 0) {
    BUTTRESS_ASSIGN_OR_RETURN(parser.eos_token_,
                              tokenizer.Decode(std::array{eos}, SpecialTokens::kKeep));
  }
  return parser;
}

Result<Prompt> PromptParser::Parse(std::string_view row, std::size_t line) const {
  BUTTRESS_ASSIGN_OR_RETURN(json object, ParseObject(row));
  Prompt prompt;
  BUTTRESS_ASSIGN_OR_RETURN(prompt.id, NameField(object, config_.id_field, std::to_string(line)));
  BUTTRESS_ASSIGN_OR_RETURN(prompt.source, NameField(object, config_.source_field, "default"));

  const auto answer = object.find(config_.answer_field);
  if (answer == object.end()) {
    return InvalidArgument("no field '" + config_.answer_field +
                           "'; run.data.answer_field names the field of the answer");
  }
  prompt.answer = answer->is_string() ? answer->get<std::string>() : answer->dump();

  const auto asked = object.find(config_.prompt_field);
  if (asked == object.end()) {
    return InvalidArgument("no field '" + config_.prompt_field +
                           "'; run.data.prompt_field names the field of the prompt");
  }
  std::string text;
  json messages;
  if (asked->is_string()) {
    text = asked->get<std::string>();
    if (text.empty()) return InvalidArgument("'" + config_.prompt_field + "' is empty");
    if (config_.chat_template) {
      messages = json::array();
      if (!config_.system_prompt.empty()) {
        messages.push_back(Message("system", config_.system_prompt));
      }
      messages.push_back(Message("user", text));
    }
  } else if (asked->is_array()) {
    BUTTRESS_RETURN_IF_ERROR(CheckMessages(*asked, config_.prompt_field));
    if (!chat_template_) {
      return InvalidArgument("'" + config_.prompt_field +
                             "' is a list of messages, but the model has no chat template");
    }
    messages = *asked;
  } else {
    return InvalidArgument("'" + config_.prompt_field +
                           "': expected text or a list of messages, found " + asked->type_name());
  }
  if (!messages.is_null()) {
    BUTTRESS_ASSIGN_OR_RETURN(text, chat_template_->Render(messages, /*add_generation_prompt=*/true,
                                                           {{"eos_token", eos_token_}}));
  }
  BUTTRESS_ASSIGN_OR_RETURN(prompt.token_ids, tokenizer_->Encode(text));
  if (prompt.token_ids.empty()) return InvalidArgument("the prompt has no tokens");
  if (static_cast<std::int64_t>(prompt.token_ids.size()) > config_.max_prompt_tokens) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens, at most {} are allowed; raise "
                    "run.data.max_prompt_tokens or drop the row",
                    prompt.token_ids.size(), config_.max_prompt_tokens));
  }
  object.erase(asked);
  prompt.extra_json = object.dump();
  return prompt;
}

}  // namespace buttress
