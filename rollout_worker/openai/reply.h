// Replies of the OpenAI API, whole or as server-sent events, with the fields that vLLM adds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/openai/request.h"

namespace buttress {

inline constexpr char kJsonType[] = "application/json";

// What a reply, or an event of it, says of one choice.
struct OpenAiChoice {
  std::int32_t index = 0;        // over all prompts: prompt * n + choice
  std::string text;              // beside the tool calls
  std::int64_t text_offset = 0;  // characters of the choice that events before this one showed
  std::vector<ToolCall> calls;
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;                              // of them, nats
  std::vector<std::vector<TokenLogprob>> top_logprobs;      // the same, where they are asked for
  std::vector<std::int32_t> prompt_token_ids;               // shown where return_token_ids is set
  std::vector<PromptLogprob> prompt_logprobs;               // of them but the first
  FinishReason finish_reason = FinishReason::kUnspecified;  // while more follows
};

struct OpenAiUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

// Makes the reply to one request. Not thread-safe.
class OpenAiReply {
 public:
  // `request` and `tokenizer` outlive the reply; `model` is the name that it shows.
  OpenAiReply(const OpenAiRequest& request, const Tokenizer& tokenizer, std::string model);

  // Returns the body of a whole reply.
  std::string Whole(const std::vector<OpenAiChoice>& choices, const OpenAiUsage& usage) const;

  // Return the parts of a stream: for each choice its first event, which may be empty, and any
  // number of others, of which the last has a finish_reason; then the end, with the usage where it
  // was asked for.
  std::string FirstEvent(std::int32_t index) const;
  std::string Event(const OpenAiChoice& choice) const;
  std::string LastEvents(const OpenAiUsage& usage) const;

 private:
  using Json = nlohmann::ordered_json;

  Json Head(bool event) const;
  Json ChoiceJson(const OpenAiChoice& choice, bool event) const;
  Json MessageJson(const OpenAiChoice& choice, bool event) const;
  Json LogprobsJson(const OpenAiChoice& choice) const;
  Json ChatLogprobsJson(const OpenAiChoice& choice) const;
  Json TokenJson(std::int32_t token, float logprob) const;
  Json PromptLogprobsJson(const OpenAiChoice& choice) const;
  std::string TokenText(std::int32_t token) const;

  const OpenAiRequest& request_;
  const Tokenizer& tokenizer_;
  const std::string model_;
  const std::string id_;
  const std::int64_t created_;
};

// Returns how many characters (code points) a UTF-8 text has, as clients count an offset.
std::int64_t CharactersOf(std::string_view text);

// The HTTP status of an error: 400 for a wrong request, 401, 404, 429 where there is no room, 503
// where another attempt may succeed, 500 for others.
unsigned HttpCodeOf(const Status& status);

// {"error": {"message", "type", "param", "code"}}. `param` is the field that the message begins
// with, if it does.
std::string ErrorBody(const Status& status);

// An event of a stream with an error, after which nothing follows.
std::string ErrorEvent(const Status& status);

}  // namespace buttress
