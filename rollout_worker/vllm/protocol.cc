#include "rollout_worker/vllm/protocol.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxErrorText = 300;
constexpr char kTooLong[] = "maximum context length is";
constexpr std::size_t kMaxStops = 4;  // vLLM refuses more (VLLM_MAX_STOP_STRINGS)
constexpr std::uint64_t kSeedMask = 0x7fffffffffffffffULL;  // vLLM's seed is an int64

// The stop strings that the server is told. It ends at these by itself; CompletionStream finds all.
std::vector<std::string> FirstStops(std::vector<std::string> stops) {
  stops.resize(std::min(stops.size(), kMaxStops));
  return stops;
}

constexpr std::size_t kMaxLine = std::size_t{16} << 20;  // the first event repeats the prompt
constexpr float kInfinity = -9999.0F;                    // vLLM writes this for minus infinity
constexpr float kRounding = 1e-3F;                       // a log-prob may exceed 0 by this much

// Returns a member of a JSON object, or null if it is missing or `json` is not an object.
const Json& Member(const Json& json, const char* name) {
  static const Json null;
  if (!json.is_object()) return null;
  const auto it = json.find(name);
  return it == json.end() ? null : *it;
}

}  // namespace

std::string CompletionBody::ToJson() const {
  Json body = {
      {"model", model},
      {"prompt", prompt_token_ids},
      {"n", 1},
      {"stream", true},
      {"stream_options", {{"include_usage", true}}},
      {"max_tokens", sampling.max_tokens},
      {"min_tokens", sampling.min_tokens},
      {"temperature", sampling.temperature},
      {"top_p", sampling.top_p},
      {"top_k", sampling.top_k == 0 ? -1 : sampling.top_k},
      {"min_p", 0.0},
      {"repetition_penalty", 1.0},
      {"presence_penalty", 0.0},
      {"frequency_penalty", 0.0},
      {"stop", FirstStops(sampling.stop)},
      {"include_stop_str_in_output", true},
      {"stop_token_ids", sampling.stop_token_ids},
      {"ignore_eos", ignore_eos},
      {"logprobs", 0},
      {"return_token_ids", true},
      {"return_tokens_as_token_ids", true},
      {"cache_salt", cache_salt},
  };
  if (seeded) body["seed"] = sampling.seed & kSeedMask;
  if (stream_interval > 0) body["stream_interval"] = stream_interval;
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ErrorText(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  std::string text(body.substr(0, std::min(body.find('\n'), kMaxErrorText)));
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) text = error.get<std::string>();
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      text = error["message"].get<std::string>();
  }
  if (text.empty()) return "(no text)";
  return text.substr(0, kMaxErrorText);
}

Status StatusOf(const HttpReply& reply, const std::string& url, const std::string& key_setting) {
  const long code = reply.status;
  if (code == 200) return OkStatus();
  const std::string what = fmt::format("{}: HTTP {}: {}", url, code, ErrorText(reply.body));
  if (code == 400 || code == 422)
    return what.find(kTooLong) == std::string::npos ? InvalidArgument(what) : OutOfRange(what);
  if (code == 401 || code == 403)
    return {StatusCode::kUnauthenticated,
            what + "; name the file of the API key by " + key_setting};
  if (code == 404) return NotFound(what);
  if (code == 405 || code == 501) return {StatusCode::kUnimplemented, what};
  if (code == 408 || code == 429 || (code >= 500 && code <= 599)) return Unavailable(what);
  return Internal(what);
}

bool WorthRetrying(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kDataLoss ||
         status.code() == StatusCode::kAborted;
}

Status CompletionStream::Read(std::string_view bytes) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    if (line_.size() + std::min(end, bytes.size()) > kMaxLine)
      return DataLoss(fmt::format("an event has more than {} bytes", kMaxLine));
    line_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(ReadLine(line_));
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

Status CompletionStream::ReadLine(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!line.starts_with("data:")) return OkStatus();  // a separator or a comment
  line.remove_prefix(5);
  while (line.starts_with(' ')) line.remove_prefix(1);
  if (line != "[DONE]") return ReadEvent(line);
  done_ = true;
  return OkStatus();
}

Status CompletionStream::ReadEvent(std::string_view text) {
  const Json event = Json::parse(text, nullptr, false);
  if (!event.is_object())
    return DataLoss("an event is not a JSON object: " + std::string(text.substr(0, 100)));
  if (event.contains("error")) {
    error_event_ = Unavailable("error event: " + ErrorText(text));
    return OkStatus();
  }
  const Json& usage = Member(event, "usage");
  if (Member(usage, "prompt_tokens").is_number_integer())
    used_prompt_tokens_ = usage["prompt_tokens"].get<std::int64_t>();
  if (Member(usage, "completion_tokens").is_number_integer())
    used_completion_tokens_ = usage["completion_tokens"].get<std::int64_t>();
  const Json& choices = Member(event, "choices");
  if (!choices.is_array() || choices.size() > 1)
    return DataLoss("an event does not have one choice: " + choices.dump().substr(0, 100));
  if (choices.empty()) return OkStatus();

  const Json& choice = choices[0];
  if (finish_reason_ != FinishReason::kUnspecified)
    return DataLoss("the reply continues after its finish_reason");
  BUTTRESS_RETURN_IF_ERROR(ReadTokens(Member(choice, "token_ids"),
                                      Member(Member(choice, "logprobs"), "token_logprobs")));
  return ReadFinish(Member(choice, "finish_reason"));
}

Status CompletionStream::ReadTokens(const Json& ids, const Json& logprobs) {
  if (!ids.is_array())
    return FailedPrecondition("the reply has no token_ids; vLLM 0.10.2 or newer returns them");
  if (ids.empty()) return OkStatus();
  if (!logprobs.is_array()) return FailedPrecondition("the reply has no log-probs of its tokens");
  if (ids.size() != logprobs.size()) {
    return DataLoss(
        fmt::format("the reply has {} token ids but {} log-probs", ids.size(), logprobs.size()));
  }
  received_ += ids.size();
  if (received_ > static_cast<std::size_t>(max_tokens_))
    return DataLoss(fmt::format("the reply has more than max_tokens = {} tokens", max_tokens_));
  for (std::size_t i = 0; i < ids.size() && finish_reason_ == FinishReason::kUnspecified; ++i) {
    const std::int64_t id = ids[i].is_number_integer() ? ids[i].get<std::int64_t>() : -1;
    if (id < 0 || id > INT32_MAX)
      return DataLoss(fmt::format("{} is not a token id", ids[i].dump()));
    const float logprob = logprobs[i].is_number() ? logprobs[i].get<float>() : NAN;
    if (!(logprob > kInfinity && logprob <= kRounding))
      return DataLoss(fmt::format("{} is not the log-prob of a sampled token", logprobs[i].dump()));
    token_ids_.push_back(static_cast<std::int32_t>(id));
    logprobs_.push_back(logprob);
    if (stops_ != nullptr && stops_->Completes(token_ids_.back()))
      finish_reason_ = FinishReason::kStop;
  }
  return OkStatus();
}

Status CompletionStream::ReadFinish(const Json& finish) {
  if (finish_reason_ == FinishReason::kStop) {  // at a stop string, which the server may not know
    cut_ = finish.is_null();
    return cut_ ? Cancelled("a stop string ended the completion") : OkStatus();
  }
  if (finish.is_null()) return OkStatus();
  if (finish == "stop") {
    finish_reason_ = FinishReason::kStop;
  } else if (finish == "length") {
    finish_reason_ = FinishReason::kLength;
  } else if (finish == "abort") {
    finish_reason_ = FinishReason::kAbort;
  } else {
    return DataLoss("finish_reason " + finish.dump() + " is none of stop, length, abort");
  }
  return OkStatus();
}

Status CompletionStream::Finish() const {
  if (cut_) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(error_event_);
  if (finish_reason_ == FinishReason::kUnspecified) {
    // vLLM omits empty chunks, so a completion that is aborted before its first token has none.
    if (done_ && token_ids_.empty() && used_completion_tokens_ == 0)
      return Aborted("the server aborted the completion before its first token");
    return Unavailable("the stream ended before the completion did");
  }
  if (finish_reason_ == FinishReason::kAbort) return Aborted("the server aborted the completion");
  if (token_ids_.empty()) return DataLoss("the reply has no tokens");
  if (used_completion_tokens_.value_or(-1) != static_cast<std::int64_t>(received_) ||
      used_prompt_tokens_.value_or(-1) != static_cast<std::int64_t>(prompt_tokens_)) {
    return DataLoss(fmt::format(
        "usage states {} prompt and {} completion tokens (-1 if absent), expected {} and {}",
        used_prompt_tokens_.value_or(-1), used_completion_tokens_.value_or(-1), prompt_tokens_,
        received_));
  }
  if (finish_reason_ == FinishReason::kLength &&
      token_ids_.size() < static_cast<std::size_t>(max_tokens_)) {
    return FailedPrecondition(
        fmt::format("a limit of the server ended a completion at {} of {} tokens; start it with {}",
                    token_ids_.size(), max_tokens_, kServerFlags));
  }
  return OkStatus();
}

}  // namespace buttress
