// The conversations of one episode as tokens. A request that continues what the policy has answered
// continues its tokens: what the policy wrote is never encoded again.
//
//   Begin (a request, and where it belongs) ──► PolicyCall ──► sampled ──► Finish ──► PolicyAnswer
//
// The answers are a tree. Each is a child of the answer whose conversation its request continues:
// the same messages up to that answer, then others. Take cuts the tree into branches, each answer
// being a turn of one branch only; where a conversation leaves another, the tokens that they share
// are context of the later one and not trained a second time. A request that continues no answer
// begins with its own prompt, all of it foreign text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"
#include "lib/chat/turns.h"
#include "lib/config/sections/env_config.h"
#include "lib/data/text_encoder.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/episodes/episode.h"

namespace buttress {

// What sessions share. All outlive them.
struct SessionParts {
  const EnvConfig& env;
  const TextEncoder& encoder;
  const TurnEncoder* turns = nullptr;  // null: the model has no chat template
  ToolFormat format = ToolFormat::kHermes;
  std::int64_t max_prompt_tokens = std::int64_t{1} << 30;  // run.data.max_prompt_tokens
};

// A request to the policy: messages, else tokens, else a text.
struct PolicyAsk {
  nlohmann::ordered_json messages = nullptr;  // OpenAI's form
  nlohmann::ordered_json tools = nullptr;     // descriptions, or null
  std::vector<std::int32_t> token_ids = {};
  std::string text = {};
  std::int32_t max_tokens = 0;  // 0: as the run says, which is also the bound
};

// What is to be sampled.
struct PolicyCall {
  std::int32_t index = 0;  // in the episode, from 0
  std::vector<std::int32_t> prompt_token_ids;
  SamplingParams sampling;    // of this call
  PolicyVersion min_version;  // the oldest that may sample it

  // Its place in the tree.
  std::int32_t parent = -1;                    // answer that it continues; -1: none
  std::size_t added = 0;                       // tokens of the prompt behind that answer
  bool chat = false;                           // the keys count, else the text
  std::vector<std::string> keys;               // of the messages behind that answer
  std::string tools;                           // descriptions of a request that continues none
  nlohmann::ordered_json described = nullptr;  // the tools of this request
  std::string text;                            // of the whole prompt
  std::int64_t asked_ms = 0;
  std::int64_t waited_ms = 0;
};

struct PolicyAnswer {
  std::int32_t turn = 0;  // for Session::Grade
  AssistantMessage message;
  std::string text;  // without special tokens and the text that stopped it
  FinishReason finish_reason = FinishReason::kStop;
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;
  std::vector<std::int32_t> prompt_token_ids;
};

// Not thread-safe.
class Session {
 public:
  // `request` is that of the sample. Every call has a seed of its own, which depends only on that
  // of the sample and the index of the call.
  Session(const SessionParts& parts, const SampleRequest& request, std::int64_t now_ms);

  // kInvalidArgument for a request that cannot be encoded. At a limit of run.env the episode ends:
  // kFailedPrecondition with the limit, for this call and later ones.
  Result<PolicyCall> Begin(const PolicyAsk& ask, std::int64_t now_ms);

  // Adds the answer to a call. REQUIRES: it has ended with stop or length.
  Result<PolicyAnswer> Finish(PolicyCall call, EngineResult sampled, std::int64_t now_ms);

  // The call has no answer.
  void Abandon() { --open_; }

  // What the environment says of an answer: adds the reward, replaces the rest.
  void Grade(std::int32_t turn, double reward, std::vector<std::string> tools,
             std::int32_t failed_tools);

  // Adds a reward to the last answer. kInvalidArgument if there is none, or the rewards of all
  // answers are too large.
  Status AddReward(double reward);

  // Ends the episode, unless it has ended.
  void End(EpisodeEnd end, std::string failure);

  // kUnspecified while it has not ended.
  EpisodeEnd end() const { return end_; }

  std::int32_t answers() const { return static_cast<std::int32_t>(answers_.size()); }

  // Of all answers.
  std::int64_t sampled_tokens() const;

  // Of the last answer; kStop without one.
  FinishReason finish_reason() const;

  // Returns the episode without its reward.
  Episode Take() const;

 private:
  struct Answer {
    PolicyCall call;  // its prompt_token_ids are only those that it added
    std::string key;  // of the message
    std::string content;
    std::vector<std::int32_t> token_ids;
    std::vector<float> logprobs;
    std::vector<Segment> segments;
    FinishReason finish_reason = FinishReason::kStop;
    EpisodeTurn turn;
    std::int32_t first_prompt = 0;  // tokens of the prompt that its conversation began with
    bool continued = false;
  };

  Status PlaceChat(const PolicyAsk& ask, PolicyCall& call);
  Status PlaceTokens(const PolicyAsk& ask, PolicyCall& call) const;
  Status PlaceText(const PolicyAsk& ask, PolicyCall& call) const;
  std::int32_t FindChat(const std::vector<std::string>& keys, const std::string& tools,
                        std::size_t& known) const;
  bool IsBetter(std::int32_t candidate, std::size_t known, std::int32_t best,
                std::size_t best_known) const;
  std::vector<std::int32_t> TokensOf(std::int32_t answer) const;
  std::int32_t EndToken(const Answer& answer) const;
  Status Limit(EpisodeEnd end, const char* setting, std::int64_t value, std::string_view by = "");
  void AppendTo(EpisodeBranch& branch, const Answer& answer) const;

  const SessionParts parts_;
  const SamplingParams sampling_;
  const PolicyVersion min_version_;
  std::vector<Answer> answers_;  // in the order in which they ended
  std::int32_t calls_ = 0;
  std::int32_t open_ = 0;
  std::int64_t tool_calls_ = 0;
  std::int64_t reencoded_ = 0;
  double reward_size_ = 0;     // of all answers, without signs
  std::int64_t ended_ms_ = 0;  // of the last answer
  EpisodeEnd end_ = EpisodeEnd::kUnspecified;
  std::string failure_;
};

}  // namespace buttress
