#include "rollout_worker/evaluation/openai_sampler.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kStepMs = 100;
constexpr std::int64_t kReplyMs = 3600000;  // a reply comes when its last token is sampled
constexpr std::uint64_t kSeedMask = 0x7fffffffffffffffULL;  // an int64 in vLLM
constexpr BackoffOptions kPauses = {.initial_ms = 200, .max_ms = 10000};

// `json[name]` of an object, or null.
Json MemberOf(const Json& json, const char* name) {
  return json.is_object() ? json.value(name, Json()) : Json();
}

// The sum of the log-probs of a completion; nullopt if there are none.
Result<std::optional<double>> SumOf(const Json& logprobs) {
  constexpr double kRounding = 1e-3;
  if (!logprobs.is_array() || logprobs.empty()) return std::optional<double>();
  double sum = 0;
  for (const Json& logprob : logprobs) {
    if (!logprob.is_number()) return std::optional<double>();
    if (logprob > kRounding)
      return FailedPrecondition("a log-prob of the server is above 0: " + logprob.dump());
    sum += logprob.get<double>();
  }
  return std::optional(sum);
}

Result<std::int64_t> TokenCountOf(const Json& reply) {
  const Json count = MemberOf(MemberOf(reply, "usage"), "completion_tokens");
  if (count.is_number_unsigned()) return count.get<std::int64_t>();
  return FailedPrecondition("usage.completion_tokens of the server is " + count.dump() +
                            "; expected the number of tokens, as OpenAI's API gives it");
}

Result<std::vector<std::int32_t>> TokensOf(const Json& ids) {
  if (!ids.is_array() || ids.empty())
    return FailedPrecondition(
        "the server returns no token_ids of its completions; vLLM 0.10.2 or newer does");
  std::vector<std::int32_t> tokens;
  for (const Json& id : ids) {
    if (!id.is_number_unsigned() || id > std::numeric_limits<std::int32_t>::max())
      return DataLoss("a token id of the server is no number of 31 bits: " + id.dump());
    tokens.push_back(id.get<std::int32_t>());
  }
  return tokens;
}

// What vLLM takes from the model's generation_config.json where a request does not have it, and
// what OpenAI's API does not have.
void AddVllmFields(const SamplingParams& sampling, Json& body) {
  body["top_k"] = sampling.top_k == 0 ? -1 : sampling.top_k;
  body["min_p"] = 0.0;
  body["repetition_penalty"] = 1.0;
  body["min_tokens"] = sampling.min_tokens;
  body["stop_token_ids"] = sampling.stop_token_ids;
  body["include_stop_str_in_output"] = sampling.include_stop;
  body["skip_special_tokens"] = true;
}

// The first setting that only vLLM has a field for; null if there is none.
const char* VllmSetting(const SamplingParams& sampling) {
  if (sampling.top_k != 0) return "top_k";
  if (sampling.min_tokens != 0) return "min_tokens";
  if (!sampling.stop_token_ids.empty()) return "stop_token_ids";
  return sampling.include_stop && !sampling.stop.empty() ? "include_stop" : nullptr;
}

}  // namespace

Result<std::vector<std::int32_t>> MessagesTokenizer::Encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::vector<std::int32_t> MessagesTokenizer::AddSpecialTokens(
    std::vector<std::int32_t> tokens) const {
  return tokens;
}

Result<std::string> MessagesTokenizer::Decode(std::span<const std::int32_t> tokens,
                                              SpecialTokens /*special*/) const {
  std::string text;
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

std::string MessagesTokenizer::TokenBytes(std::int32_t token) const {
  return std::string(1, static_cast<char>(token));
}

Result<std::unique_ptr<OpenAiSampler>> OpenAiSampler::Open(const OpenAiOptions& options,
                                                           const Tokenizer* messages) {
  std::unique_ptr<OpenAiSampler> sampler(new OpenAiSampler(options, messages));
  std::string& url = sampler->options_.url;
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  BUTTRESS_RETURN_IF_ERROR(sampler->FindModel());
  return sampler;
}

HttpRequest OpenAiSampler::Request(const std::string& call) const {
  HttpRequest request;
  request.url = options_.url + call;
  request.bearer = options_.api_key;
  return request;
}

Status OpenAiSampler::CheckReply(const HttpReply& reply, const std::string& call) const {
  const std::string url = options_.url + call;
  if (reply.status == 404 || reply.status == 405)
    return InvalidArgument(url + ": HTTP " + std::to_string(reply.status) + ": " +
                           ErrorText(reply.body) +
                           "; expected an OpenAI-compatible server, as http://host:8000");
  return StatusOf(reply, url, "--api-key-file");
}

Status OpenAiSampler::FindModel() {
  constexpr const char* kCall = "/v1/models";
  HttpRequest request = Request(kCall);
  request.deadlines.whole_ms = 30000;
  const Result<HttpReply> reply = std::move(http_.Fetch({request})[0]);
  if (!reply.ok())
    return {reply.status().code(), reply.status().message() +
                                       "; start the server, or name another by --server, as "
                                       "http://host:8000"};
  BUTTRESS_RETURN_IF_ERROR(CheckReply(*reply, kCall));
  const Json models = MemberOf(Json::parse(reply->body, nullptr, false), "data");
  if (!models.is_array())
    return InvalidArgument(request.url + " gave no list of models: " + ErrorText(reply->body) +
                           "; expected an OpenAI-compatible server, as http://host:8000");
  std::string names;
  for (const Json& model : models) {
    const Json id = MemberOf(model, "id");
    if (!id.is_string()) continue;
    const bool only = options_.model.empty() && models.size() == 1;
    if (only || id == options_.model) {
      options_.model = id.get<std::string>();
      const Json owner = MemberOf(model, "owned_by");
      is_vllm_ = owner == "vllm" || owner == "buttress";  // which takes the same fields
      const Json positions = MemberOf(model, "max_model_len");
      positions_ = positions.is_number_integer() ? positions.get<std::int64_t>() : 0;
      return OkStatus();
    }
    names += (names.empty() ? "" : ", ") + id.get<std::string>();
  }
  if (names.empty()) return InvalidArgument(request.url + " lists no models");
  return InvalidArgument(options_.model.empty()
                             ? options_.url + " has several models; name one with --model: " + names
                             : options_.url + " has no model '" + options_.model +
                                   "'; name one of these with --model: " + names);
}

Status OpenAiSampler::Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) {
  Json body = {{"model", options_.model},
               {"max_tokens", sampling.max_tokens},
               {"temperature", sampling.temperature},
               {"top_p", sampling.top_p},
               {"presence_penalty", 0.0},
               {"frequency_penalty", 0.0},
               {"seed", sampling.seed & kSeedMask}};
  if (!sampling.stop.empty()) body["stop"] = sampling.stop;
  if (is_vllm_) {
    AddVllmFields(sampling, body);
  } else if (const char* setting = VllmSetting(sampling)) {
    return InvalidArgument(std::string("sampling.") + setting + " is set, but " + options_.url +
                           " is not vLLM, and OpenAI's API does not have it; leave it out");
  }
  if (messages_ != nullptr) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text,
                              messages_->Decode(prompt.token_ids, SpecialTokens::kKeep));
    body["messages"] = Json::parse(text, nullptr, false);
  } else {
    body["prompt"] = prompt.token_ids;
    if (options_.logprobs && is_vllm_) body["logprobs"] = 0;  // of the sampled token alone
    if (options_.token_ids) body["return_token_ids"] = true;
    const auto room = positions_ - static_cast<std::int64_t>(prompt.token_ids.size());
    if (positions_ > 0 && room <= 0) {  // as an engine of a run gives it back: unscorable
      SampledCompletion& none = ended_.emplace_back();
      none.key = key;
      none.finish_reason = FinishReason::kError;
      return OkStatus();
    }
    if (positions_ > 0) body["max_tokens"] = std::min<std::int64_t>(sampling.max_tokens, room);
  }
  waiting_.push_back({key, body.dump(-1, ' ', false, Json::error_handler_t::replace),
                      Backoff(kPauses, sampling.seed), 0});
  return OkStatus();
}

void OpenAiSampler::Begin() {
  const std::int64_t now = RealClock().MonotonicMs();
  for (auto call = waiting_.begin(); call != waiting_.end();) {
    if (static_cast<std::int64_t>(running_.size()) >= options_.requests) return;
    if (call->not_before_ms > now) {
      ++call;
      continue;
    }
    HttpRequest request =
        Request(messages_ != nullptr ? "/v1/chat/completions" : "/v1/completions");
    request.json = call->body;
    request.deadlines.first_byte_ms = kReplyMs;
    const auto id = std::make_shared<std::uint64_t>(0);
    *id = http_.Start(std::move(request), nullptr, [this, id](Result<HttpReply> reply) {
      replies_.emplace_back(*id, std::move(reply));
    });
    running_.emplace(*id, std::move(*call));
    call = waiting_.erase(call);
  }
}

Result<SampledCompletion> OpenAiSampler::Read(const HttpReply& reply) const {
  BUTTRESS_RETURN_IF_ERROR(
      CheckReply(reply, messages_ != nullptr ? "/v1/chat/completions" : "/v1/completions"));
  const Json json = Json::parse(reply.body, nullptr, false);
  const Json choices = MemberOf(json, "choices");
  if (!choices.is_array() || choices.size() != 1)
    return DataLoss(options_.url + " gave no completion: " + reply.body.substr(0, 200));
  const Json text = messages_ != nullptr ? MemberOf(MemberOf(choices[0], "message"), "content")
                                         : MemberOf(choices[0], "text");
  const Json finish = MemberOf(choices[0], "finish_reason");
  if (!(text.is_string() || text.is_null()) || finish == "abort")
    return DataLoss(options_.url + " gave no whole completion: " + reply.body.substr(0, 200));
  SampledCompletion completion;
  completion.finish_reason = finish == "stop"     ? FinishReason::kStop
                             : finish == "length" ? FinishReason::kLength
                                                  : FinishReason::kError;
  completion.text = text.is_string() ? text.get<std::string>() : "";
  BUTTRESS_ASSIGN_OR_RETURN(completion.tokens, TokenCountOf(json));
  if (options_.token_ids) {
    BUTTRESS_ASSIGN_OR_RETURN(completion.token_ids, TokensOf(MemberOf(choices[0], "token_ids")));
  }
  BUTTRESS_ASSIGN_OR_RETURN(completion.logprob,
                            SumOf(MemberOf(MemberOf(choices[0], "logprobs"), "token_logprobs")));
  return completion;
}

Status OpenAiSampler::End(Call call, const Result<HttpReply>& reply) {
  Result<SampledCompletion> completion =
      reply.ok() ? Read(*reply) : reply.status().Annotate(options_.url);
  if (completion.ok()) {
    completion->key = call.key;
    ended_.push_back(*std::move(completion));
    return OkStatus();
  }
  if (!WorthRetrying(completion.status()) || call.backoff.attempts() + 1 >= kMostAttempts)
    return completion.status();
  if (call.backoff.attempts() == 0)
    Log(kWarn, "a request is repeated", {{"why", completion.status().message()}});
  call.not_before_ms = RealClock().MonotonicMs() + call.backoff.NextMs();
  waiting_.push_front(std::move(call));
  return OkStatus();
}

Result<std::vector<SampledCompletion>> OpenAiSampler::Step() {
  Begin();
  if (ended_.empty()) http_.Step(kStepMs);
  for (auto& [id, reply] : std::exchange(replies_, {}))
    BUTTRESS_RETURN_IF_ERROR(End(std::move(running_.extract(id).mapped()), reply));
  return std::exchange(ended_, {});
}

}  // namespace buttress
