#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "lib/base/text/random.h"
#include "lib/data/field_path.h"
#include "lib/data/prompt_file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// A row is copied and printed recursively, so its depth is bounded.
constexpr int kMaxDepth = 64;

// A group with a longer id or source would be refused (lib/experience/check.cc).
constexpr std::size_t kMaxNameBytes = 4096;

Result<ordered_json> ParseObject(std::string_view row) {
  bool too_deep = false;
  std::set<std::string> names;
  std::string repeated;
  const auto guard = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    too_deep = too_deep || depth > kMaxDepth;
    if (depth == 1 && event == ordered_json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
    return depth <= kMaxDepth;
  };
  ordered_json object =
      ordered_json::parse(row.begin(), row.end(), guard, /*allow_exceptions=*/false);
  if (too_deep)
    return InvalidArgument("nested deeper than " + std::to_string(kMaxDepth) + " levels");
  if (object.is_discarded()) return InvalidArgument("not JSON");
  if (!object.is_object())
    return InvalidArgument("expected an object, found " + std::string(object.type_name()));
  if (!repeated.empty()) return InvalidArgument("field '" + repeated + "' appears twice");
  return object;
}

// Returns a field that must be a text or a number: an id or a source.
Result<std::string> NameField(ordered_json& row, const std::string& path,
                              const std::string& if_absent) {
  const FoundField found = FindField(row, path);
  if (!found || found.value().is_null()) return if_absent;
  const ordered_json& value = found.value();
  if (value.is_number()) return value.dump();
  if (!value.is_string())
    return InvalidArgument(
        fmt::format("'{}': expected text, found {}", path, DescribeValue(value, path)));
  const std::string& name = value.get_ref<const std::string&>();
  if (name.empty()) return InvalidArgument("'" + path + "' is empty");
  if (name.size() > kMaxNameBytes)
    return InvalidArgument(
        fmt::format("'{}' has {} bytes; expected at most {}", path, name.size(), kMaxNameBytes));
  return name;
}

bool HasForm(const ordered_json& answer, AnswerForm form) {
  if (form == AnswerForm::kAny) return true;
  if (answer.is_array()) return form == AnswerForm::kTextOrList;
  return !answer.is_object() && !answer.is_null();
}

// Returns the answer: a text verbatim, any other value as JSON.
Result<std::string> AnswerField(ordered_json& row, const std::string& path, const std::string& key,
                                AnswerForm form) {
  if (path.empty()) {
    if (form == AnswerForm::kAny) return std::string();
    return InvalidArgument(key + " is empty, but the row's verifier needs an answer");
  }
  const FoundField found = FindField(row, path);
  if (!found)
    return InvalidArgument(DescribeMissing(row, path) + "; " + key +
                           " names the field of the answer");
  const ordered_json& value = found.value();
  if (!HasForm(value, form))
    return InvalidArgument(
        fmt::format("'{}' is {}; the row's verifier needs a text, so name its field in {}", path,
                    DescribeValue(value, path), key));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ordered_json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Result<PromptParser> PromptParser::Create(const PromptDataset& dataset, const Tokenizer& tokenizer,
                                          AnswerForms answers) {
  const DataConfig& config = dataset.data;
  const std::string& section = dataset.section;
  BUTTRESS_ASSIGN_OR_RETURN(TextEncoder encoder,
                            TextEncoder::Create(tokenizer, config.template_arguments));
  if (!config.system_prompt.empty() && !config.chat_template)
    return InvalidArgument(
        fmt::format("{0}.system_prompt is set but {0}.chat_template is false; a system message "
                    "needs the chat template",
                    section));
  if (config.chat_template && !encoder.has_chat_template())
    return InvalidArgument(
        section +
        ".chat_template is true, but the model has no chat template; set it to false or "
        "give the model one");
  return PromptParser(dataset, std::move(encoder), std::move(answers));
}

ordered_json PromptParser::Sent(const ordered_json& asked) const {
  if (!asked.is_string() || !config_.chat_template) return asked;
  ordered_json messages = ordered_json::array();
  if (!config_.system_prompt.empty()) messages.push_back(Message("system", config_.system_prompt));
  messages.push_back(Message("user", asked.get_ref<const std::string&>()));
  return messages;
}

Result<std::vector<std::int32_t>> PromptParser::Encode(const ordered_json& asked) const {
  const std::string field = "'" + config_.prompt_field + "'";
  if (asked == "") return InvalidArgument(field + " is empty");
  if (!asked.is_string() && !asked.is_array())
    return InvalidArgument(field + ": expected text or a list of messages, found " +
                           DescribeValue(asked, config_.prompt_field));
  const ordered_json messages = Sent(asked);
  if (messages.is_string()) return encoder_.EncodeText(messages.get_ref<const std::string&>());
  auto tokens = encoder_.EncodeMessages(messages, /*add_generation_prompt=*/true);
  if (!tokens.ok()) return tokens.status().Annotate(field);
  return tokens;
}

Status PromptParser::ReadName(ordered_json& row, std::size_t line, Prompt& prompt) const {
  BUTTRESS_ASSIGN_OR_RETURN(prompt.id, NameField(row, config_.id_field, std::to_string(line)));
  if (name_.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(prompt.source, NameField(row, config_.source_field, kDefaultSource));
    return OkStatus();
  }
  prompt.source = name_;
  prompt.id = name_ + "/" + prompt.id;
  if (prompt.id.size() <= kMaxNameBytes) return OkStatus();
  return InvalidArgument(fmt::format("the id '{}' has {} bytes; expected at most {}", prompt.id,
                                     prompt.id.size(), kMaxNameBytes));
}

std::optional<std::uint64_t> PromptParser::HashPrompt(std::string_view row) const {
  auto object = ParseObject(row);
  if (!object.ok()) return std::nullopt;
  const FoundField asked = FindField(*object, config_.prompt_field);
  if (!asked) return std::nullopt;
  return HashText(Sent(asked.value()).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

Status PromptParser::CheckLength(std::int64_t tokens) const {
  const bool fits = positions_ == 0 || tokens + max_tokens_ <= positions_;
  if (fits && tokens <= config_.max_prompt_tokens) return OkStatus();
  std::string what =
      fits ? fmt::format("the prompt has {} tokens, at most {} are allowed", tokens,
                         config_.max_prompt_tokens)
           : fmt::format(
                 "the prompt has {} tokens and a completion up to {} (max_tokens), but the "
                 "model has {} positions",
                 tokens, max_tokens_, positions_);
  if (config_.over_long == OverLong::kDrop) return OutOfRange(std::move(what));
  const std::string advice = fits                  ? "raise " + Key("max_prompt_tokens")
                             : tokens < positions_ ? "lower max_tokens"
                                                   : "shorten it";
  return InvalidArgument(fmt::format("{}; {}, or set {} to drop", what, advice, Key("over_long")));
}

Result<Prompt> PromptParser::Parse(std::string_view row, std::size_t line) const {
  BUTTRESS_ASSIGN_OR_RETURN(ordered_json object, ParseObject(row));
  Prompt prompt;
  BUTTRESS_RETURN_IF_ERROR(ReadName(object, line, prompt));
  BUTTRESS_ASSIGN_OR_RETURN(
      prompt.answer,
      AnswerField(object, config_.answer_field, Key("answer_field"), answers_.For(prompt.source)));
  const FoundField asked = FindField(object, config_.prompt_field);
  if (!asked)
    return InvalidArgument(DescribeMissing(object, config_.prompt_field) + "; " +
                           Key("prompt_field") + " names the field of the prompt");
  BUTTRESS_ASSIGN_OR_RETURN(prompt.token_ids, Encode(asked.value()));
  if (prompt.token_ids.empty()) return InvalidArgument("the prompt has no tokens");
  BUTTRESS_RETURN_IF_ERROR(CheckLength(static_cast<std::int64_t>(prompt.token_ids.size())));
  // Reward functions get the prompt as the row has it, under the name that TRL gives it.
  ordered_json original = std::move(asked.value());
  asked.object->erase(asked.name);
  object["prompt"] = std::move(original);
  prompt.extra_json = object.dump();
  return prompt;
}

}  // namespace buttress
