#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "lib/data/prompt_file.h"

namespace buttress {
namespace {

using json = nlohmann::ordered_json;

// A row is copied and printed recursively, so its depth is bounded.
constexpr int kMaxDepth = 64;

// A group with a longer id or source would be refused (lib/experience/check.cc).
constexpr std::size_t kMaxNameBytes = 4096;

Result<json> ParseObject(std::string_view row) {
  bool too_deep = false;
  std::set<std::string> names;
  std::string repeated;
  const auto guard = [&](int depth, json::parse_event_t event, json& value) {
    too_deep = too_deep || depth > kMaxDepth;
    if (depth == 1 && event == json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
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
  if (!repeated.empty()) return InvalidArgument("field '" + repeated + "' stands twice");
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
  if (name.size() > kMaxNameBytes) {
    return InvalidArgument(
        fmt::format("'{}' has {} bytes; expected at most {}", field, name.size(), kMaxNameBytes));
  }
  return name;
}

json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Result<PromptParser> PromptParser::Create(const DataConfig& config, const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(TextEncoder encoder,
                            TextEncoder::Create(tokenizer, config.template_arguments));
  if (!config.system_prompt.empty() && !config.chat_template) {
    return InvalidArgument(
        "run.data.system_prompt is set but run.data.chat_template is false; a system message needs "
        "the chat template");
  }
  if (config.chat_template && !encoder.has_chat_template()) {
    return InvalidArgument(
        "run.data.chat_template is true, but the model has no chat template; set it to false or "
        "give the model one");
  }
  return PromptParser(config, std::move(encoder));
}

Result<std::vector<std::int32_t>> PromptParser::Encode(const json& asked) const {
  const std::string field = "'" + config_.prompt_field + "'";
  json messages = asked;
  if (asked.is_string()) {
    const std::string& text = asked.get_ref<const std::string&>();
    if (text.empty()) return InvalidArgument(field + " is empty");
    if (!config_.chat_template) return encoder_.EncodeText(text);
    messages = json::array();
    if (!config_.system_prompt.empty()) {
      messages.push_back(Message("system", config_.system_prompt));
    }
    messages.push_back(Message("user", text));
  } else if (!asked.is_array()) {
    return InvalidArgument(field + ": expected text or a list of messages, found " +
                           asked.type_name());
  }
  auto tokens = encoder_.EncodeMessages(messages, /*add_generation_prompt=*/true);
  if (!tokens.ok()) return tokens.status().Annotate(field);
  return tokens;
}

Result<Prompt> PromptParser::Parse(std::string_view row, std::size_t line) const {
  BUTTRESS_ASSIGN_OR_RETURN(json object, ParseObject(row));
  Prompt prompt;
  BUTTRESS_ASSIGN_OR_RETURN(prompt.id, NameField(object, config_.id_field, std::to_string(line)));
  BUTTRESS_ASSIGN_OR_RETURN(prompt.source, NameField(object, config_.source_field, kDefaultSource));

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
  BUTTRESS_ASSIGN_OR_RETURN(prompt.token_ids, Encode(*asked));
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
