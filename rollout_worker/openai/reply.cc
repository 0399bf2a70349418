#include "rollout_worker/openai/reply.h"

#include <absl/strings/escaping.h>
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "lib/base/net/secret.h"
#include "lib/base/text/random.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kIdBytes = 12;
constexpr std::size_t kCallIdLetters = 9;  // as the templates of Mistral ask for
constexpr float kLeastLogprob = -9999.0F;  // JSON has no infinity; vLLM writes this

std::string TextOf(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string EventOf(const ordered_json& json) { return "data: " + TextOf(json) + "\n\n"; }

ordered_json FinishOf(const OpenAiChoice& choice) {
  switch (choice.finish_reason) {
    case FinishReason::kUnspecified:
      return nullptr;
    case FinishReason::kStop:
      return choice.calls.empty() ? "stop" : "tool_calls";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return nullptr;
}

std::string CallId(const std::string& reply, std::int32_t choice, std::size_t call) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::uint64_t bits = MixSeed(HashText(fmt::format("{}-{}", reply, choice)), call);
  std::string id;
  for (; id.size() < kCallIdLetters; bits /= kLetters.size())
    id += kLetters[bits % kLetters.size()];
  return id;
}

const char* TypeOf(unsigned code) {
  if (code == 401) return "authentication_error";
  if (code == 404) return "not_found_error";
  if (code == 429) return "rate_limit_error";
  return code < 500 ? "invalid_request_error" : "server_error";
}

// The first word of "prompt is missing" or "n = 0; expected ...".
ordered_json ParamOf(const std::string& message) {
  const std::size_t end = message.find(' ');
  if (end == std::string::npos) return nullptr;
  const std::string_view rest = std::string_view(message).substr(end);
  if (!rest.starts_with(" = ") && !rest.starts_with(" is ")) return nullptr;
  return message.substr(0, end);
}

const char* CodeOf(const Status& status, const ordered_json& param) {
  if (status.code() == StatusCode::kNotFound && param == "model") return "model_not_found";
  if (status.code() == StatusCode::kUnauthenticated) return "invalid_api_key";
  if (status.code() == StatusCode::kOutOfRange) return "context_length_exceeded";
  if (status.code() == StatusCode::kResourceExhausted) return "rate_limit_exceeded";
  return nullptr;
}

ordered_json ErrorJson(const Status& status) {
  const unsigned http = HttpCodeOf(status);
  const ordered_json param = ParamOf(status.message());
  const char* const code = CodeOf(status, param);
  // Of those that are not found, a model is a field, and a path is not.
  const bool is_field = http == 400 || (http == 404 && code != nullptr);
  return {{"error",
           {{"message", status.message()},
            {"type", TypeOf(http)},
            {"param", is_field ? param : nullptr},
            {"code", code == nullptr ? ordered_json() : ordered_json(code)}}}};
}

ordered_json UsageJson(const OpenAiUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

double Finite(float logprob) { return std::max(logprob, kLeastLogprob); }

}  // namespace

OpenAiReply::OpenAiReply(const OpenAiRequest& request, const Tokenizer& tokenizer,
                         std::string model)
    : request_(request),
      tokenizer_(tokenizer),
      model_(std::move(model)),
      id_((request.chat ? "chatcmpl-" : "cmpl-") +
          absl::BytesToHexString(MakeSecret().substr(0, kIdBytes))),
      created_(std::time(nullptr)) {}

OpenAiReply::Json OpenAiReply::Head(bool event) const {
  const char* const chat = event ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_},
          {"object", request_.chat ? chat : "text_completion"},
          {"created", created_},
          {"model", model_}};
}

std::string OpenAiReply::Whole(const std::vector<OpenAiChoice>& choices,
                               const OpenAiUsage& usage) const {
  Json body = Head(false);
  Json& list = body["choices"] = Json::array();
  for (const OpenAiChoice& choice : choices) list.push_back(ChoiceJson(choice, false));
  if (request_.prompt_logprobs && request_.chat)
    body["prompt_logprobs"] = PromptLogprobsJson(choices.front());
  body["usage"] = UsageJson(usage);
  return TextOf(body);
}

std::string OpenAiReply::FirstEvent(std::int32_t index) const {
  if (!request_.chat) return "";
  Json event = Head(true);
  const Json choice = {{"index", index},
                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                       {"logprobs", nullptr},
                       {"finish_reason", nullptr}};
  event["choices"] = Json::array({choice});
  return EventOf(event);
}

std::string OpenAiReply::Event(const OpenAiChoice& choice) const {
  Json event = Head(true);
  event["choices"] = Json::array({ChoiceJson(choice, true)});
  return EventOf(event);
}

std::string OpenAiReply::LastEvents(const OpenAiUsage& usage) const {
  constexpr char kDone[] = "data: [DONE]\n\n";
  if (!request_.include_usage) return kDone;
  Json event = Head(true);
  event["choices"] = Json::array();
  event["usage"] = UsageJson(usage);
  return EventOf(event) + kDone;
}

OpenAiReply::Json OpenAiReply::ChoiceJson(const OpenAiChoice& choice, bool event) const {
  Json out = {{"index", choice.index}};
  if (request_.chat) {
    out[event ? "delta" : "message"] = MessageJson(choice, event);
  } else {
    out["text"] = choice.text;
  }
  out["logprobs"] = !request_.logprobs ? Json()
                    : request_.chat    ? ChatLogprobsJson(choice)
                                       : LogprobsJson(choice);
  out["finish_reason"] = FinishOf(choice);
  if (request_.prompt_logprobs && !request_.chat)
    out["prompt_logprobs"] = PromptLogprobsJson(choice);
  if (!request_.return_token_ids) return out;
  out["token_ids"] = choice.token_ids;
  out["prompt_token_ids"] =
      choice.prompt_token_ids.empty() ? Json() : Json(choice.prompt_token_ids);
  return out;
}

OpenAiReply::Json OpenAiReply::MessageJson(const OpenAiChoice& choice, bool event) const {
  Json message = Json::object();
  if (!event) message["role"] = "assistant";
  if (!choice.text.empty() || (!event && choice.calls.empty())) {
    message["content"] = choice.text;
  } else if (!event) {
    message["content"] = nullptr;
  }
  for (std::size_t i = 0; i < choice.calls.size(); ++i) {
    const ToolCall& call = choice.calls[i];
    Json one = {{"id", CallId(id_, choice.index, i)},
                {"type", "function"},
                {"function", {{"name", call.name}, {"arguments", TextOf(call.arguments)}}}};
    if (event) one["index"] = i;
    message["tool_calls"].push_back(std::move(one));
  }
  return message;
}

// The prompt is the first part of an echo. Its first token has no log-prob, and an answer that
// was cut before the prompt was scored has no other. As in vLLM, text_offset counts the characters
// of `tokens`, special ones among them, which the text leaves out.
OpenAiReply::Json OpenAiReply::LogprobsJson(const OpenAiChoice& choice) const {
  Json tokens = Json::array(), offsets = Json::array();
  Json logprobs = Json::array(), tops = Json::array();
  std::int64_t offset = choice.text_offset;
  const auto add_token = [&](std::int32_t token) {
    offsets.push_back(offset);
    offset += CharactersOf(tokens.emplace_back(TokenText(token)).get_ref<const std::string&>());
  };
  const auto add = [&](std::int32_t token, float logprob, const std::vector<TokenLogprob>& top) {
    Json by_text = Json::object();
    for (const TokenLogprob& one : top) by_text.emplace(TokenText(one.token), Finite(one.logprob));
    by_text.emplace(TokenText(token), Finite(logprob));
    add_token(token);
    logprobs.push_back(Finite(logprob));
    tops.push_back(std::move(by_text));
  };
  const std::size_t echoed =
      request_.echo ? std::min(choice.prompt_token_ids.size(), choice.prompt_logprobs.size() + 1)
                    : 0;
  for (std::size_t i = 0; i < echoed; ++i) {
    if (i > 0) {
      const PromptLogprob& score = choice.prompt_logprobs[i - 1];
      add(choice.prompt_token_ids[i], score.logprob, score.top);
    } else {
      add_token(choice.prompt_token_ids[0]);
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
    }
  }
  for (std::size_t i = 0; i < choice.token_ids.size(); ++i) {
    add(choice.token_ids[i], choice.logprobs[i],
        i < choice.top_logprobs.size() ? choice.top_logprobs[i] : std::vector<TokenLogprob>());
  }
  return {{"tokens", tokens},
          {"token_logprobs", logprobs},
          {"top_logprobs", request_.extras.top_logprobs > 0 ? tops : Json()},
          {"text_offset", offsets}};
}

OpenAiReply::Json OpenAiReply::TokenJson(std::int32_t token, float logprob) const {
  Json bytes = Json::array();
  for (const char c : tokenizer_.TokenBytes(token)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", TokenText(token)}, {"logprob", Finite(logprob)}, {"bytes", bytes}};
}

OpenAiReply::Json OpenAiReply::ChatLogprobsJson(const OpenAiChoice& choice) const {
  Json content = Json::array();
  for (std::size_t i = 0; i < choice.token_ids.size(); ++i) {
    Json token = TokenJson(choice.token_ids[i], choice.logprobs[i]);
    Json& top = token["top_logprobs"] = Json::array();
    for (std::size_t t = 0; i < choice.top_logprobs.size() && t < choice.top_logprobs[i].size();
         ++t)
      top.push_back(TokenJson(choice.top_logprobs[i][t].token, choice.top_logprobs[i][t].logprob));
    content.push_back(std::move(token));
  }
  return {{"content", content}};
}

// As vLLM: null for the first token, then objects by id, of the token and of the most probable.
OpenAiReply::Json OpenAiReply::PromptLogprobsJson(const OpenAiChoice& choice) const {
  Json out = Json::array({nullptr});
  for (std::size_t i = 0; i < choice.prompt_logprobs.size(); ++i) {
    const PromptLogprob& score = choice.prompt_logprobs[i];
    Json by_id = Json::object();
    const auto add = [&](std::int32_t token, float logprob, std::int64_t rank) {
      by_id.emplace(
          std::to_string(token),
          Json{{"logprob", Finite(logprob)}, {"rank", rank}, {"decoded_token", TokenText(token)}});
    };
    add(choice.prompt_token_ids[i + 1], score.logprob, score.rank);
    for (std::size_t t = 0; t < score.top.size(); ++t)
      add(score.top[t].token, score.top[t].logprob, static_cast<std::int64_t>(t) + 1);
    out.push_back(std::move(by_id));
  }
  return out;
}

std::string OpenAiReply::TokenText(std::int32_t token) const {
  const Result<std::string> text =
      request_.tokens_as_ids ? Result<std::string>(fmt::format("token_id:{}", token))
                             : tokenizer_.Decode(std::span(&token, 1), SpecialTokens::kKeep);
  return text.ok() ? *text : "";
}

std::int64_t CharactersOf(std::string_view text) {
  return std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
}

unsigned HttpCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return 400;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kResourceExhausted:
      return IsOutOfMemory(status) ? 500 : 429;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

std::string ErrorBody(const Status& status) { return TextOf(ErrorJson(status)); }

std::string ErrorEvent(const Status& status) { return EventOf(ErrorJson(status)); }

}  // namespace buttress
