#include "rollout_worker/episodes/agent_gateway.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/net/address.h"
#include "lib/base/net/secret.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/verify/extract.h"
#include "rollout_worker/openai/fields.h"
#include "rollout_worker/openai/reply.h"
#include "rollout_worker/openai/request.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr char kJson[] = "application/json";
constexpr std::string_view kPrefix = "/episodes/";
constexpr std::size_t kMostClosed = 4096;
constexpr std::size_t kShownPathBytes = 100;

// `code` is what a program can read of an error; empty: none.
void Refuse(ApiCall& call, unsigned status, const Status& why, std::string_view code) {
  // An end or a limit is the request's fault, and none of the server.
  const bool own = status == 400 || status == 410;
  const std::string text = ErrorBody(own ? InvalidArgument(why.message()) : why);
  ordered_json body = ordered_json::parse(text, nullptr, false);
  if (!code.empty()) body["error"]["code"] = code;
  if (status == 429) call.SetHeader("Retry-After", "1");
  call.Reply(status, kJson, body.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

void Refuse(ApiCall& call, const Status& why) {
  switch (why.code()) {
    case StatusCode::kFailedPrecondition:
      return Refuse(call, 400, why, "episode_ended");
    case StatusCode::kResourceExhausted:
      return Refuse(call, 429, why, "too_many_calls");
    default:
      return Refuse(call, HttpCodeOf(why), why, "");
  }
}

// A request whose answers are awaited: one for each prompt and choice. Thread-safe.
class OpenRequest {
 public:
  OpenRequest(std::shared_ptr<ApiCall> call, OpenAiRequest request, const Tokenizer& tokenizer)
      : call_(std::move(call)),
        request_(std::move(request)),
        reply_(request_, tokenizer, kAgentModel) {}

  const OpenAiRequest& request() const { return request_; }

  void Expect(std::size_t answers) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answers_.resize(answers);
    missing_ = answers;
  }

  bool refused() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return refused_;
  }

  void Add(std::size_t index, Result<PolicyAnswer> answer) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (refused_) return;
    if (!answer.ok()) {
      refused_ = true;
      return Refuse(*call_, answer.status());
    }
    answers_[index] = *std::move(answer);
    if (--missing_ == 0) SendLocked();
  }

 private:
  OpenAiChoice ChoiceOf(std::size_t index) const REQUIRES(mutex_) {
    const PolicyAnswer& answer = *answers_[index];
    OpenAiChoice choice;
    choice.index = static_cast<std::int32_t>(index);
    choice.text = request_.chat ? answer.message.content : answer.text;
    if (request_.chat) choice.calls = answer.message.calls;
    choice.token_ids = answer.token_ids;
    choice.logprobs = answer.logprobs;
    choice.prompt_token_ids = answer.prompt_token_ids;
    choice.finish_reason = answer.finish_reason;
    return choice;
  }

  void SendLocked() REQUIRES(mutex_) {
    std::vector<OpenAiChoice> choices;
    OpenAiUsage usage;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      choices.push_back(ChoiceOf(i));
      // As OpenAI counts: a prompt once, however many choices it has.
      if (i % static_cast<std::size_t>(request_.n) == 0)
        usage.prompt_tokens += static_cast<std::int64_t>(choices.back().prompt_token_ids.size());
      usage.completion_tokens += static_cast<std::int64_t>(choices.back().token_ids.size());
    }
    if (!request_.stream) return call_->Reply(200, kJson, reply_.Whole(choices, usage));
    call_->Begin(200, "text/event-stream");
    for (const OpenAiChoice& choice : choices)
      call_->Write(reply_.FirstEvent(choice.index) + reply_.Event(choice));
    call_->Write(reply_.LastEvents(usage));
    call_->End();
  }

  const std::shared_ptr<ApiCall> call_;
  const OpenAiRequest request_;
  const OpenAiReply reply_;
  mutable Mutex mutex_;
  std::vector<std::optional<PolicyAnswer>> answers_ GUARDED_BY(mutex_);
  std::size_t missing_ GUARDED_BY(mutex_) = 0;
  bool refused_ GUARDED_BY(mutex_) = false;
};

// Refuses another model, what would change the distribution of an answer, and what no episode
// keeps.
Status CheckAsked(const OpenAiRequest& request) {
  BUTTRESS_RETURN_IF_ERROR(CheckModelName(request.model, kAgentModel));
  const std::pair<bool, const char*> refused[] = {
      {request.extras.penalties != Penalties(), "a penalty"},
      {request.extras.top_logprobs > 0, "top_logprobs, or logprobs of /completions above 0,"},
      {request.prompt_logprobs, "prompt_logprobs"},
      {request.echo, "echo"},
      {!request.template_arguments.is_null(), "chat_template_kwargs"},
      {request.called_tool.has_value(), "tool_choice but for auto and none"}};
  for (const auto& [is_asked, what] : refused) {
    if (is_asked)
      return InvalidArgument(fmt::format(
          "{} is not for agents: the policy answers as the run samples; leave it out", what));
  }
  return OkStatus();
}

// What a request asks, once for each prompt.
std::vector<PolicyAsk> AsksOf(const OpenAiRequest& request) {
  std::vector<PolicyAsk> asks;
  if (request.chat) {
    asks.push_back({.messages = request.messages, .tools = request.tools});
  } else {
    for (const OpenAiPrompt& prompt : request.prompts) {
      PolicyAsk& ask = asks.emplace_back();
      if (const auto* text = std::get_if<std::string>(&prompt)) {
        ask.text = *text;
      } else {
        ask.token_ids = std::get<std::vector<std::int32_t>>(prompt);
      }
    }
  }
  for (PolicyAsk& ask : asks) ask.max_tokens = request.max_tokens.value_or(0);
  return asks;
}

Result<OpenAiRequest> ParseAsked(std::string_view body, bool chat) {
  BUTTRESS_ASSIGN_OR_RETURN(OpenAiRequest request, chat ? ParseChat(body) : ParseCompletions(body));
  BUTTRESS_RETURN_IF_ERROR(CheckAsked(request));
  return request;
}

// Returns why the request is refused as a whole.
Status AskPolicy(const std::shared_ptr<ApiCall>& call, const std::shared_ptr<LiveEpisode>& episode,
                 bool chat, const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(OpenAiRequest request, ParseAsked(call->body(), chat));
  const std::vector<PolicyAsk> asks = AsksOf(request);
  const auto n = static_cast<std::size_t>(request.n);
  if (asks.size() * n > LiveEpisode::kMostCalls)
    return ResourceExhausted("the request asks for too many answers at once");
  const auto open = std::make_shared<OpenRequest>(call, std::move(request), tokenizer);
  open->Expect(asks.size() * n);
  std::vector<std::int32_t> calls;
  for (std::size_t i = 0; i < asks.size() * n && !open->refused(); ++i) {
    calls.push_back(episode->Ask(asks[i / n], [open, episode, i](Result<PolicyAnswer> answer) {
      if (!answer.ok()) episode->NoteRefusal(answer.status());
      open->Add(i, std::move(answer));
    }));
  }
  const auto leave = [episode, calls] {
    for (const std::int32_t index : calls) episode->Leave(index);
  };
  open->refused() ? leave() : call->OnGone(leave);
  return OkStatus();
}

Status Reward(LiveEpisode& episode, std::string_view body) {
  BUTTRESS_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseBoundedJson(body));
  if (!parsed.is_object()) return InvalidArgument("the body is no object");
  std::optional<double> reward, turn_reward;
  for (const auto& [name, value] : parsed.items()) {
    if (name != "reward" && name != "turn_reward")
      return InvalidArgument(name + " is not known; expected reward or turn_reward");
    if (!value.is_number() || !IsReward(value.get<double>()))
      return InvalidArgument(name + " is not a number between -1e6 and 1e6");
    (name == "reward" ? reward : turn_reward) = value.get<double>();
  }
  if (!reward && !turn_reward)
    return InvalidArgument("the body names no reward; expected reward or turn_reward");
  return episode.Reward(reward, turn_reward);
}

std::string Models() {
  const ordered_json model = {
      {"id", kAgentModel}, {"object", "model"}, {"created", 0}, {"owned_by", "buttress"}};
  return ordered_json{{"object", "list"}, {"data", ordered_json::array({model})}}.dump();
}

// Returns KEY of /episodes/KEY/...; empty for another path.
std::string_view KeyOfPath(std::string_view path) {
  if (!path.starts_with(kPrefix)) return "";
  path.remove_prefix(kPrefix.size());
  return path.substr(0, path.find('/'));
}

}  // namespace

Result<std::unique_ptr<AgentGateway>> AgentGateway::Start(const EpisodesConfig& config,
                                                          const Tokenizer& tokenizer) {
  std::unique_ptr<AgentGateway> gateway(new AgentGateway(tokenizer));
  ApiPortOptions options;
  options.address = config.listen;
  options.what = "the endpoint of agents";
  // Clients keep those that they have used, so that one agent takes none from another.
  options.connections = std::max<std::int64_t>(
      options.connections, config.running * static_cast<std::int64_t>(LiveEpisode::kMostCalls));
  options.share_of = [](std::string_view path) { return std::string(KeyOfPath(path)); };
  options.max_of_share = 2 * static_cast<std::int64_t>(LiveEpisode::kMostCalls);
  auto port = ApiPort::Start(options, [self = gateway.get()](const std::shared_ptr<ApiCall>& call) {
    self->Answer(call);
  });
  if (!port.ok()) return port.status().Annotate("local.worker.episodes.listen");
  gateway->url_ =
      config.url.empty() ? "http://" + BoundAddress(config.listen, (*port)->port()) : config.url;
  gateway->port_ = *std::move(port);
  return gateway;
}

std::string AgentGateway::Open(const std::shared_ptr<LiveEpisode>& episode) {
  std::string key = ToHex(MakeSecret());
  MutexLock lock(mutex_);
  open_[key] = episode;
  return key;
}

void AgentGateway::Close(const std::string& key) {
  MutexLock lock(mutex_);
  open_.erase(key);
  closed_.push_back(key);
  if (closed_.size() > kMostClosed) closed_.pop_front();
}

// kAborted for an episode that is over.
Result<std::shared_ptr<LiveEpisode>> AgentGateway::Find(const std::string& key) {
  MutexLock lock(mutex_);
  if (const auto found = open_.find(key); found != open_.end() && !found->second->over())
    return found->second;
  const bool known = open_.contains(key) || std::ranges::find(closed_, key) != closed_.end();
  return known ? Aborted("the episode is over") : NotFound("there is no such episode");
}

void AgentGateway::Answer(const std::shared_ptr<ApiCall>& call) {
  const std::string key(KeyOfPath(call->path()));
  if (key.empty()) return Refuse(*call, NotFound("expected a path below /episodes/KEY/v1"));
  const Result<std::shared_ptr<LiveEpisode>> episode = Find(key);
  if (!episode.ok() && episode.status().code() == StatusCode::kAborted)
    return Refuse(*call, 410, episode.status(), "episode_ended");
  if (!episode.ok()) return Refuse(*call, 404, episode.status(), "episode_unknown");
  const Status refused = AnswerOf(call, *episode);
  if (refused.ok()) return;
  (*episode)->NoteRefusal(refused);
  Refuse(*call, refused);
}

Status AgentGateway::AnswerOf(const std::shared_ptr<ApiCall>& call,
                              const std::shared_ptr<LiveEpisode>& episode) const {
  const std::string_view key = KeyOfPath(call->path());
  if (call->Header("Authorization") != fmt::format("Bearer {}", key))
    return {StatusCode::kUnauthenticated,
            "the API key is wrong or missing; expected that of the episode (OPENAI_API_KEY)"};
  const std::string_view what = call->path().substr(kPrefix.size() + key.size());
  const bool post = call->method() == "POST";
  if (post && what == "/v1/chat/completions") return AskPolicy(call, episode, true, tokenizer_);
  if (post && what == "/v1/completions") return AskPolicy(call, episode, false, tokenizer_);
  if (post && what == "/v1/reward") {
    BUTTRESS_RETURN_IF_ERROR(Reward(*episode, call->body()));
    call->Reply(200, kJson, "{}");
    return OkStatus();
  }
  if (post || what != "/v1/models")
    return NotFound(fmt::format("{} {} is no call of an episode; see docs/agents.md",
                                call->method(), FirstBytes(what, kShownPathBytes)));
  call->Reply(200, kJson, Models());
  return OkStatus();
}

}  // namespace buttress
