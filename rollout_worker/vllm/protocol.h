// vLLM's JSON: requests that leave nothing to the server's defaults, and replies that are checked
// before they are believed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/http/http_client.h"

namespace buttress {

// Flags and environment that a server has to be started with; refusals name them.
inline constexpr char kServerFlags[] =
    "--generation-config vllm --logprobs-mode processed_logprobs (and VLLM_SERVER_DEV_MODE=1)";

// Body of POST /v1/completions for one completion, streamed, token ids in and out. Every sampling
// field is written: one that is left out takes its value from the model's generation_config.json.
// `cache_salt` keeps keys and values of other weights out of the prefix cache.
struct CompletionBody {
  std::string model;
  std::vector<std::int32_t> prompt_token_ids;
  SamplingParams sampling;
  std::string cache_salt;
  bool ignore_eos = false;

  std::string ToJson() const;
};

// Text of an error body, which is an object, a string, or no JSON at all; at most 300 characters.
std::string ErrorText(std::string_view body);

// OK for 200. 400, 422: kInvalidArgument; 401, 403: kUnauthenticated; 404: kNotFound; 405, 501:
// kUnimplemented; 408, 429, 5xx: kUnavailable; other numbers: kInternal.
Status StatusOf(const HttpReply& reply, const std::string& url);

// Whether the same request may succeed later or on another server.
bool WorthRetrying(const Status& status);

// What a server-sent event stream of one completion says, piece by piece.
class CompletionStream {
 public:
  // Bounds: a reply with other than `prompt_tokens` and 1..max_tokens tokens is refused.
  CompletionStream(std::size_t prompt_tokens, std::int32_t max_tokens)
      : prompt_tokens_(prompt_tokens), max_tokens_(max_tokens) {}

  // kDataLoss: not what the interface says; kFailedPrecondition: the server runs without what we
  // need.
  Status Read(std::string_view bytes);

  // After the last byte. OK: complete; kAborted: the server cut it, tokens so far are good;
  // kUnavailable: an error event, or the stream broke off.
  Status Finish() const;

  const std::vector<std::int32_t>& token_ids() const { return token_ids_; }

  const std::vector<float>& logprobs() const { return logprobs_; }

  // Set once no token can follow.
  FinishReason finish_reason() const { return finish_reason_; }

 private:
  Status ReadLine(std::string_view line);
  Status ReadEvent(std::string_view json);

  const std::size_t prompt_tokens_;
  const std::int32_t max_tokens_;
  std::string line_;    // not ended yet
  Status error_event_;  // comes in place of the rest
  std::vector<std::int32_t> token_ids_;
  std::vector<float> logprobs_;
  FinishReason finish_reason_ = FinishReason::kUnspecified;
  std::optional<std::int64_t> used_prompt_tokens_;
  std::optional<std::int64_t> used_completion_tokens_;
  bool done_ = false;  // [DONE] was read
};

}  // namespace buttress
