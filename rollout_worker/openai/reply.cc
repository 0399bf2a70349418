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

const char* CodeOf(const Status& status) {
  if (status.code() == StatusCode::kUnauthenticated) return "invalid_api_key";
  if (status.code() == StatusCode::kOutOfRange) return "context_length_exceeded";
  if (status.code() == StatusCode::kResourceExhausted) return "rate_limit_exceeded";
  return nullptr;
}

// The first word of "prompt is missing" or "n = 0; expected ...".
ordered_json ParamOf(const std::string& message) {
  const std::size_t end = message.find(' ');
  if (end == std::string::npos) return nullptr;
  const std::string_view rest = std::string_view(message).substr(end);
  if (!rest.starts_with(" = ") && !rest.starts_with(" is ")) return nullptr;
  return message.substr(0, end);
}

ordered_json ErrorJson(const Status& status) {
  const unsigned http = HttpCodeOf(status);
  const char* const code = CodeOf(status);
  return {{"error",
           {{"message", status.message()},
            {"type", TypeOf(http)},
            {"param", http == 400 ? ParamOf(status.message()) : nullptr},
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

OpenAiReply::Json OpenAiReply::LogprobsJson(const OpenAiChoice& choice) const {
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array();
  for (std::size_t i = 0; i < choice.token_ids.size(); ++i) {
    const std::string text = TokenText(choice.token_ids[i]);
    const double logprob = Finite(choice.logprobs[i]);
    tokens.push_back(text);
    logprobs.push_back(logprob);
    if (request_.top_logprobs) top.push_back({{text, logprob}});
  }
  return {{"tokens", tokens},
          {"token_logprobs", logprobs},
          {"top_logprobs", request_.top_logprobs ? top : Json()}};
}

OpenAiReply::Json OpenAiReply::ChatLogprobsJson(const OpenAiChoice& choice) const {
  Json content = Json::array();
  for (std::size_t i = 0; i < choice.token_ids.size(); ++i) {
    const std::string text = TokenText(choice.token_ids[i]);
    Json bytes = Json::array();
    for (const char c : tokenizer_.TokenBytes(choice.token_ids[i]))
      bytes.push_back(static_cast<unsigned char>(c));
    Json token = {{"token", text}, {"logprob", Finite(choice.logprobs[i])}, {"bytes", bytes}};
    Json top = request_.top_logprobs ? Json::array({token}) : Json::array();
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return {{"content", content}};
}

std::string OpenAiReply::TokenText(std::int32_t token) const {
  const Result<std::string> text =
      request_.tokens_as_ids ? Result<std::string>(fmt::format("token_id:{}", token))
                             : tokenizer_.Decode(std::span(&token, 1), SpecialTokens::kKeep);
  return text.ok() ? *text : "";
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
