// Requests of the OpenAI API, with the fields that vLLM adds to it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/policy/decode/sample_extras.h"

namespace buttress {

// A text, which is still to be encoded, or tokens.
using OpenAiPrompt = std::variant<std::string, std::vector<std::int32_t>>;

// A body of /v1/completions or /v1/chat/completions.
struct OpenAiRequest {
  bool chat = false;
  std::string model;                  // empty: not named
  std::vector<OpenAiPrompt> prompts;  // of completions; at least one
  bool add_special_tokens = true;     // to the texts of prompts
  // Of a chat, as a template reads it: contents are texts, arguments of tool calls are objects.
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;  // a list of descriptions; null for none, and for tool_choice: none
  nlohmann::ordered_json template_arguments;  // chat_template_kwargs; null for none
  // Without seed and max_tokens. The stops are those of the request alone (DecideStops adds those
  // of the model).
  SamplingParams sampling;
  std::optional<std::int32_t> max_tokens;  // absent: what the model has room for; 0: echo alone
  std::optional<std::uint64_t> seed;       // absent: any
  std::int32_t n = 1;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;    // a stream ends with it
  bool logprobs = false;         // of the sampled tokens
  bool prompt_logprobs = false;  // are shown
  SampleExtras extras;           // penalties, and log-probs beside those of the sampled tokens
  bool echo = false;             // of completions: the prompt is the first part of the text
  // Of a chat: the answer is a call of the tool with this name; empty: of any. absent: as it likes.
  std::optional<std::string> called_tool;
  bool tokens_as_ids = false;  // log-probs show "token_id:5"
  bool return_token_ids = false;

  // The seed of choice `index` of each prompt: `base`, which is the seed of the request or any, for
  // the first.
  static std::uint64_t SeedOf(std::uint64_t base, std::int32_t index);
};

// Parse a body. A field that would change the answer and is not supported is kInvalidArgument, as
// is one that is unknown or malformed; the message begins with its name. Fields that change no
// answer (user, metadata, cache_salt, ...) may have any value, and null stands for an absent field.
// Pure.
Result<OpenAiRequest> ParseCompletions(std::string_view body);
Result<OpenAiRequest> ParseChat(std::string_view body);

// Turns messages of the API into what a chat template reads: parts of texts are joined by newlines,
// and the arguments of tool calls become objects. kInvalidArgument names the place of what is
// malformed, or no text. Pure.
Result<nlohmann::ordered_json> TemplateMessages(const nlohmann::ordered_json& messages);

// kNotFound unless `name`, the model of a request, is `served` or empty (not named). Pure.
Status CheckModelName(const std::string& name, const std::string& served);

// Reads chat_template_kwargs, names that the chat template reads besides what the other fields of a
// request say, and refuses those that these say. `out` stays null if there are none. Pure.
Status ReadTemplateArguments(const std::string& name, const nlohmann::ordered_json& value,
                             nlohmann::ordered_json& out);

}  // namespace buttress
