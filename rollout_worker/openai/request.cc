#include "rollout_worker/openai/request.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/base/text/random.h"
#include "rollout_worker/openai/fields.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::int32_t kMaxChoices = 128;
constexpr std::size_t kMaxPrompts = 2048;
constexpr std::int32_t kDefaultTokens = 16;  // of completions, as in OpenAI's API
constexpr std::int32_t kMostLogprobs = 20;   // of a token, as in OpenAI's API and vLLM
constexpr double kMostPenalty = 2;           // as in OpenAI's API
constexpr double kLeastRepetition = 0.01;
constexpr double kMostRepetition = 100;

// What a chat template reads, or the call that renders it, of other fields than
// chat_template_kwargs.
constexpr std::array<std::string_view, 6> kOfOtherFields = {
    "messages",      "tools",   "add_generation_prompt", "continue_final_message",
    "chat_template", "tokenize"};

// They change no token of an answer.
constexpr std::array<std::string_view, 11> kIgnored = {
    "user",          "metadata",         "store",      "service_tier",    "request_id",
    "priority",      "prompt_cache_key", "cache_salt", "stream_interval", "safety_identifier",
    "stream_options"};  // which have their own reader

Status ReadStop(const ordered_json& value, std::vector<std::string>& out) {
  for (const ordered_json& text : value.is_array() ? value : ordered_json::array({value})) {
    BUTTRESS_RETURN_IF_ERROR(ReadField("stop", text, out.emplace_back()));
    if (out.back().empty()) return WrongField("stop", value, "texts that are not empty");
  }
  return OkStatus();
}

Status ReadPrompt(const ordered_json& value, std::vector<OpenAiPrompt>& out) {
  constexpr std::string_view kExpected = "a text, a list of token ids, or a list of these";
  const auto one = [&out](const ordered_json& prompt) -> Status {
    if (prompt.is_string()) {
      out.emplace_back(prompt.get<std::string>());
      return OkStatus();
    }
    return ReadIdsField("prompt", prompt,
                        std::get<1>(out.emplace_back(std::vector<std::int32_t>())));
  };
  if (value.is_string() || (value.is_array() && !value.empty() && value[0].is_number()))
    return one(value);
  if (!value.is_array() || value.empty() || value.size() > kMaxPrompts)
    return WrongField("prompt", value, kExpected);
  for (const ordered_json& prompt : value) BUTTRESS_RETURN_IF_ERROR(one(prompt));
  return OkStatus();
}

Status ReadTools(const ordered_json& value, ordered_json& out) {
  if (!value.is_array()) return WrongField("tools", value, "a list of tools");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const ordered_json& tool = value[i];
    const bool function = MemberOf(tool, "type") == "function" &&
                          MemberOf(MemberOf(tool, "function"), "name").is_string();
    if (!function)
      return WrongField(fmt::format("tools[{}]", i), tool,
                        R"({"type": "function", "function": {"name": ...}})");
  }
  if (!value.empty()) out = value;
  return OkStatus();
}

// What a field that is not supported must be, so that it changes nothing.
struct NeutralField {
  std::string_view name;
  const char* json;
};

constexpr NeutralField kNeutral[] = {
    {"min_p", "0"},
    {"length_penalty", "1"},
    {"best_of", "1"},
    {"use_beam_search", "false"},
    {"echo", "false"},
    {"suffix", "\"\""},
    {"logit_bias", "{}"},
    {"skip_special_tokens", "true"},
    {"spaces_between_special_tokens", "true"},
    {"add_generation_prompt", "true"},
    {"continue_final_message", "false"},
    {"chat_template_kwargs", "{}"},
    {"response_format", R"({"type": "text"})"},
    {"modalities", R"(["text"])"},
    {"functions", "[]"},
    {"allowed_token_ids", "[]"},
    {"bad_words", "[]"},
    {"truncate_prompt_tokens", "-1"},
    {"parallel_tool_calls", "true"},
};

using Reader = std::function<Status(const std::string& name, const ordered_json& value)>;

// The readers of the fields that both calls have.
std::map<std::string_view, Reader> CommonReaders(OpenAiRequest& to) {
  SamplingParams& sampling = to.sampling;
  Penalties& penalties = to.extras.penalties;
  const auto into = [](auto& field) -> Reader {
    return [&field](const std::string& name, const ordered_json& value) {
      return ReadField(name, value, field);
    };
  };
  const auto number = [](double least, double most, double& field) -> Reader {
    return [=, &field](const std::string& name, const ordered_json& value) {
      return ReadNumberField(name, value, least, most, field);
    };
  };
  const auto whole = [](std::int32_t least, std::int32_t most, std::int32_t& field) -> Reader {
    return [=, &field](const std::string& name, const ordered_json& value) {
      return ReadWholeField(name, value, least, most, field);
    };
  };
  const Reader max_tokens = [&to](const std::string& name, const ordered_json& value) {
    return ReadWholeField(name, value, to.chat ? 1 : 0, kMaxWhole, to.max_tokens.emplace());
  };
  return {
      {"model", into(to.model)},
      {"n", whole(1, kMaxChoices, to.n)},
      {"stream", into(to.stream)},
      {"temperature", number(0, 100, sampling.temperature)},
      {"top_p", number(1e-6, 1, sampling.top_p)},
      {"presence_penalty", number(-kMostPenalty, kMostPenalty, penalties.presence)},
      {"frequency_penalty", number(-kMostPenalty, kMostPenalty, penalties.frequency)},
      {"repetition_penalty", number(kLeastRepetition, kMostRepetition, penalties.repetition)},
      {"prompt_logprobs",
       [&](const std::string& name, const ordered_json& value) {
         to.prompt_logprobs = true;
         return ReadWholeField(name, value, 0, kMostLogprobs, to.extras.prompt_logprobs);
       }},
      {"top_k",
       [&](const std::string& name, const ordered_json& value) {
         const Status read = ReadWholeField(name, value, -1, kMaxWhole, sampling.top_k);
         sampling.top_k = std::max(sampling.top_k, 0);  // vLLM's -1 is 0 as well
         return read;
       }},
      {"min_tokens", whole(0, kMaxWhole, sampling.min_tokens)},
      {"max_tokens", max_tokens},
      {"stop", [&](const std::string&,
                   const ordered_json& value) { return ReadStop(value, sampling.stop); }},
      {"stop_token_ids",
       [&](const std::string& name, const ordered_json& value) {
         return ReadIdsField(name, value, sampling.stop_token_ids);
       }},
      {"include_stop_str_in_output", into(sampling.include_stop)},
      {"ignore_eos", into(to.ignore_eos)},
      {"return_token_ids", into(to.return_token_ids)},
      {"return_tokens_as_token_ids", into(to.tokens_as_ids)},
      {"seed",
       [&](const std::string& name, const ordered_json& value) -> Status {
         if (!value.is_number_integer()) return WrongField(name, value, "a whole number");
         to.seed = value.is_number_unsigned()
                       ? value.get<std::uint64_t>()
                       : static_cast<std::uint64_t>(value.get<std::int64_t>());
         return OkStatus();
       }},
  };
}

std::map<std::string_view, Reader> CompletionReaders(OpenAiRequest& to) {
  std::map<std::string_view, Reader> readers = CommonReaders(to);
  readers["prompt"] = [&](const std::string&, const ordered_json& value) {
    return ReadPrompt(value, to.prompts);
  };
  readers["add_special_tokens"] = [&](const std::string& name, const ordered_json& value) {
    return ReadField(name, value, to.add_special_tokens);
  };
  readers["echo"] = [&](const std::string& name, const ordered_json& value) {
    return ReadField(name, value, to.echo);
  };
  readers["logprobs"] = [&](const std::string& name, const ordered_json& value) {
    to.logprobs = true;
    return ReadWholeField(name, value, 0, kMostLogprobs, to.extras.top_logprobs);
  };
  return readers;
}

std::map<std::string_view, Reader> ChatReaders(OpenAiRequest& to) {
  std::map<std::string_view, Reader> readers = CommonReaders(to);
  readers["max_completion_tokens"] = readers["max_tokens"];
  readers["messages"] = [&](const std::string&, const ordered_json& value) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(to.messages, TemplateMessages(value));
    return OkStatus();
  };
  readers["tools"] = [&](const std::string&, const ordered_json& value) {
    return ReadTools(value, to.tools);
  };
  readers["chat_template_kwargs"] = [&](const std::string& name, const ordered_json& value) {
    return ReadTemplateArguments(name, value, to.template_arguments);
  };
  readers["tool_choice"] = [&](const std::string& name, const ordered_json& value) {
    if (value == "auto" || value == "none") return OkStatus();
    std::string& tool = to.called_tool.emplace();
    if (value == "required") return OkStatus();
    const ordered_json named = MemberOf(MemberOf(value, "function"), "name");
    if (MemberOf(value, "type") == "function" && named.is_string()) tool = named;
    return !tool.empty() ? OkStatus()
                         : WrongField(name, value,
                                      R"("auto", "none", "required" or {"type": "function", )"
                                      R"("function": {"name": ...}})");
  };
  readers["add_special_tokens"] = [](const std::string& name, const ordered_json& value) {
    return value == false ? OkStatus()
                          : WrongField(name, value, "false; a chat template writes them");
  };
  readers["logprobs"] = [&](const std::string& name, const ordered_json& value) {
    return ReadField(name, value, to.logprobs);
  };
  readers["top_logprobs"] = [&](const std::string& name, const ordered_json& value) {
    return ReadWholeField(name, value, 0, kMostLogprobs, to.extras.top_logprobs);
  };
  return readers;
}

Status ReadOther(const std::string& name, const ordered_json& value) {
  if (std::ranges::find(kIgnored, name) != kIgnored.end()) return OkStatus();
  const auto* const neutral = std::ranges::find(kNeutral, name, &NeutralField::name);
  if (neutral == std::end(kNeutral))
    return InvalidArgument(name + " is not a field that this server knows; leave it out");
  if (value == ordered_json::parse(neutral->json)) return OkStatus();
  return WrongField(name, value, fmt::format("{}: this server has nothing else", neutral->json));
}

Status ReadStreamOptions(const ordered_json& body, OpenAiRequest& to) {
  const auto options = body.find("stream_options");
  if (options == body.end() || options->is_null()) return OkStatus();
  if (!options->is_object()) return WrongField("stream_options", *options, "an object");
  for (const auto& [name, value] : options->items()) {
    if (name != "include_usage")
      return InvalidArgument("stream_options." + name + " is not known; leave it out");
    BUTTRESS_RETURN_IF_ERROR(ReadField("stream_options." + name, value, to.include_usage));
  }
  return OkStatus();
}

Status ReadFields(const ordered_json& body, const std::map<std::string_view, Reader>& readers) {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) continue;
    const auto reader = readers.find(name);
    BUTTRESS_RETURN_IF_ERROR(reader == readers.end() ? ReadOther(name, value)
                                                     : reader->second(name, value));
  }
  return OkStatus();
}

// What fields ask for together.
Status CheckTogether(OpenAiRequest& to) {
  if (to.extras.top_logprobs > 0 && !to.logprobs)
    return InvalidArgument("top_logprobs is not 0; expected logprobs = true beside it");
  if (to.max_tokens == 0 && !to.echo)
    return InvalidArgument("max_tokens = 0; expected at least 1, or echo = true beside it");
  if (to.stream && to.echo)
    return InvalidArgument("echo is not streamed; expected stream = false beside it");
  if (to.stream && to.prompt_logprobs)
    return InvalidArgument("prompt_logprobs is not streamed; expected stream = false beside it");
  if (to.echo && to.logprobs && !to.prompt_logprobs)
    to.extras.prompt_logprobs = to.extras.top_logprobs;
  return OkStatus();
}

// tool_choice names one of the tools.
Status CheckCalledTool(const OpenAiRequest& request) {
  if (!request.called_tool) return OkStatus();
  const std::string& name = *request.called_tool;
  const bool known = std::ranges::any_of(request.tools, [&](const ordered_json& tool) {
    return name.empty() || tool["function"]["name"] == name;
  });
  if (known) return OkStatus();
  return InvalidArgument(fmt::format("tool_choice is {}; expected a tool of `tools`",
                                     name.empty() ? "required" : name));
}

// Puts the text of a message in place of its parts.
Status JoinParts(const std::string& place, ordered_json& content) {
  if (content.is_string()) return OkStatus();
  if (!content.is_array()) return WrongField(place, content, "a text or a list of parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string name = fmt::format("{}[{}]", place, i);
    if (MemberOf(part, "type") != "text")
      return WrongField(name, part,
                        R"({"type": "text", "text": ...}; images and sounds are not read)");
    std::string piece;
    BUTTRESS_RETURN_IF_ERROR(ReadField(name + ".text", MemberOf(part, "text"), piece));
    text += (i > 0 ? "\n" : "") + piece;
  }
  content = text;
  return OkStatus();
}

// Puts the object of the arguments of a call in place of their JSON.
Status ParseCall(const std::string& place, ordered_json& call) {
  if (!MemberOf(call, "function").is_object())
    return WrongField(place, call, "an object with 'function'");
  ordered_json& function = call["function"];
  ordered_json arguments = function.value("arguments", ordered_json("{}"));
  if (arguments.is_string()) {
    const auto text = arguments.get<std::string>();
    arguments = NestedDeeper(text) ? ordered_json() : ordered_json::parse(text, nullptr, false);
  }
  if (!arguments.is_object())
    return WrongField(place + ".function.arguments", MemberOf(function, "arguments"),
                      "the JSON of an object");
  function["arguments"] = std::move(arguments);
  return OkStatus();
}

}  // namespace

std::uint64_t OpenAiRequest::SeedOf(std::uint64_t base, std::int32_t index) {
  return index == 0 ? base : MixSeed(base, static_cast<std::uint64_t>(index));
}

Result<ordered_json> TemplateMessages(const ordered_json& messages) {
  if (!messages.is_array() || messages.empty())
    return WrongField("messages", messages, "a list of messages");
  ordered_json out = messages;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string place = fmt::format("messages[{}]", i);
    ordered_json& message = out[i];
    if (!MemberOf(message, "role").is_string())
      return WrongField(place, message, "an object with 'role' and 'content'");
    const bool calls = MemberOf(message, "tool_calls").is_array();
    if (!calls) message.erase("tool_calls");
    if (MemberOf(message, "content").is_null()) {
      if (!calls) return InvalidArgument(place + ".content is missing; expected a text");
      message["content"] = "";
    }
    BUTTRESS_RETURN_IF_ERROR(JoinParts(place + ".content", message["content"]));
    for (std::size_t c = 0; calls && c < message["tool_calls"].size(); ++c) {
      BUTTRESS_RETURN_IF_ERROR(
          ParseCall(fmt::format("{}.tool_calls[{}]", place, c), message["tool_calls"][c]));
    }
  }
  return out;
}

Status CheckModelName(const std::string& name, const std::string& served) {
  if (name.empty() || name == served) return OkStatus();
  return NotFound(fmt::format("model = '{}' is not served; expected '{}'", name, served));
}

Status ReadTemplateArguments(const std::string& name, const ordered_json& value,
                             ordered_json& out) {
  if (!value.is_object())
    return WrongField(name, value, "an object of names that the chat template reads");
  for (const std::string_view other : kOfOtherFields) {
    if (value.contains(other))
      return InvalidArgument(fmt::format("{}.{} is not for a request; leave it out", name, other));
  }
  if (!value.empty()) out = value;
  return OkStatus();
}

Result<OpenAiRequest> ParseCompletions(std::string_view body) {
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json parsed, ParseObject(body));
  OpenAiRequest request;
  BUTTRESS_RETURN_IF_ERROR(ReadFields(parsed, CompletionReaders(request)));
  BUTTRESS_RETURN_IF_ERROR(ReadStreamOptions(parsed, request));
  BUTTRESS_RETURN_IF_ERROR(CheckTogether(request));
  if (request.prompts.empty())
    return InvalidArgument("prompt is missing; expected a text or a list of token ids");
  if (!request.max_tokens) request.max_tokens = kDefaultTokens;
  return request;
}

Result<OpenAiRequest> ParseChat(std::string_view body) {
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json parsed, ParseObject(body));
  OpenAiRequest request;
  request.chat = true;
  BUTTRESS_RETURN_IF_ERROR(ReadFields(parsed, ChatReaders(request)));
  BUTTRESS_RETURN_IF_ERROR(ReadStreamOptions(parsed, request));
  BUTTRESS_RETURN_IF_ERROR(CheckTogether(request));
  if (request.messages.is_null())
    return InvalidArgument("messages is missing; expected a list of messages");
  if (MemberOf(parsed, "tool_choice") == "none") request.tools = nullptr;
  BUTTRESS_RETURN_IF_ERROR(CheckCalledTool(request));
  return request;
}

}  // namespace buttress
