#include "rollout_worker/vllm/protocol.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace buttress {
namespace {

constexpr std::size_t kMaxErrorText = 300;
constexpr std::size_t kMaxStops = 4;  // vLLM refuses more (VLLM_MAX_STOP_STRINGS)
constexpr std::uint64_t kSeedMask = 0x7fffffffffffffffULL;  // vLLM's seed is an int64

// The stop strings that the server is told. It ends at these by itself; CompletionStream finds all.
std::vector<std::string> FirstStops(std::vector<std::string> stops) {
  stops.resize(std::min(stops.size(), kMaxStops));
  return stops;
}

}  // namespace

std::string CompletionBody::ToJson() const {
  const nlohmann::json body = {
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
      {"seed", sampling.seed & kSeedMask},
      {"stop", FirstStops(sampling.stop)},
      {"include_stop_str_in_output", true},
      {"stop_token_ids", sampling.stop_token_ids},
      {"ignore_eos", ignore_eos},
      {"logprobs", 0},
      {"return_token_ids", true},
      {"return_tokens_as_token_ids", true},
      {"cache_salt", cache_salt},
  };
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ErrorText(std::string_view body) {
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  std::string text(body.substr(0, kMaxErrorText));
  if (json.is_object() && json.contains("error")) {
    const nlohmann::json& error = json["error"];
    if (error.is_string()) text = error.get<std::string>();
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      text = error["message"].get<std::string>();
  }
  if (text.empty()) return "(no text)";
  return text.substr(0, kMaxErrorText);
}

Status StatusOf(const HttpReply& reply, const std::string& url) {
  const long code = reply.status;
  if (code == 200) return OkStatus();
  const std::string what = fmt::format("{}: HTTP {}: {}", url, code, ErrorText(reply.body));
  if (code == 400 || code == 422) return InvalidArgument(what);
  if (code == 401 || code == 403)
    return {StatusCode::kUnauthenticated, what + "; set local.worker.vllm.api_key_file"};
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

}  // namespace buttress
