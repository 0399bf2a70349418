// The JSON of vLLM's completions. Requests leave nothing to the defaults of the server, and replies
// are checked before they are used.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/http/http_client.h"
#include "lib/tokenizer/stop_matcher.h"

namespace buttress {

// The flags and the environment with which a server must be started. Error messages name them.
inline constexpr char kServerFlags[] =
    "--generation-config vllm --logprobs-mode processed_logprobs (and VLLM_SERVER_DEV_MODE=1)";

// The body of POST /v1/completions for one streamed completion, with token ids in both directions.
// It states every sampling field, because vLLM takes a missing one from generation_config.json.
struct CompletionBody {
  std::string model;
  std::vector<std::int32_t> prompt_token_ids;
  SamplingParams sampling;
  std::string cache_salt;  // separates the prefix cache from that of other weights
  bool ignore_eos = false;
  bool seeded = false;               // whether sampling.seed is sent, or the server's own is used
  std::int64_t stream_interval = 0;  // tokens of an event; 0: as the server is set

  std::string ToJson() const;
};

// Returns at most 300 characters of an error body, which may be a JSON object, a string or plain
// text.
std::string ErrorText(std::string_view body);

// Converts an HTTP status: 200 is OK; 400 and 422 are kInvalidArgument, or kOutOfRange where vLLM
// says that the prompt is too long; 401 and 403 kUnauthenticated; 404 kNotFound; 405 and 501
// kUnimplemented; 408, 429 and other 5xx kUnavailable; the rest kInternal. `key_setting` is the
// setting or flag that names the file of the API key.
Status StatusOf(const HttpReply& reply, const std::string& url,
                const std::string& key_setting = "local.worker.vllm.api_key_file");

// Returns whether the same request may succeed later or on another server.
bool WorthRetrying(const Status& status);

// Parses the server-sent events of one completion as they arrive. Not thread-safe.
class CompletionStream {
 public:
  // Expects `prompt_tokens` prompt tokens, and 1 to `max_tokens` completion tokens. The token that
  // completes a string of `stops` is the last; `stops` may be null.
  CompletionStream(std::size_t prompt_tokens, std::int32_t max_tokens, StopMatcher* stops = nullptr)
      : prompt_tokens_(prompt_tokens), max_tokens_(max_tokens), stops_(stops) {}

  // Reads the next bytes. kDataLoss if they violate the protocol; kFailedPrecondition if the server
  // lacks a required flag; kCancelled if a stop string ended the completion and the server
  // continues.
  Status Read(std::string_view bytes);

  // Returns the status after the last byte: OK if the completion is complete or was cut; kAborted
  // if the server aborted it, in which case the tokens are valid; kUnavailable after an error event
  // or an incomplete stream.
  Status Finish() const;

  const std::vector<std::int32_t>& token_ids() const { return token_ids_; }

  const std::vector<float>& logprobs() const { return logprobs_; }

  // kUnspecified while more tokens may follow.
  FinishReason finish_reason() const { return finish_reason_; }

  // Whether a stop string ended the completion before the server did.
  bool cut() const { return cut_; }

 private:
  Status ReadLine(std::string_view line);
  Status ReadEvent(std::string_view json);
  Status ReadTokens(const nlohmann::json& ids, const nlohmann::json& logprobs);
  Status ReadFinish(const nlohmann::json& finish);

  const std::size_t prompt_tokens_;
  const std::int32_t max_tokens_;
  StopMatcher* const stops_;
  std::string line_;    // the bytes of an incomplete line
  Status error_event_;  // the error that the server sent instead of the rest
  std::vector<std::int32_t> token_ids_;
  std::vector<float> logprobs_;
  FinishReason finish_reason_ = FinishReason::kUnspecified;
  bool cut_ = false;
  std::size_t received_ = 0;  // tokens, with those behind a stop string
  std::optional<std::int64_t> used_prompt_tokens_;
  std::optional<std::int64_t> used_completion_tokens_;
  bool done_ = false;  // [DONE] was read
};

}  // namespace buttress
