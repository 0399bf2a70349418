#include "rollout_worker/episodes/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/base/text/unicode.h"
#include "lib/chat/tool_calls.h"
#include "lib/verify/extract.h"
#include "rollout_worker/episodes/messages.h"
#include "rollout_worker/scoring/response_text.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxToolNameBytes = 64;

// The messages [begin, end) of a list.
ordered_json SomeOf(const ordered_json& messages, std::size_t begin, std::size_t end) {
  ordered_json some = ordered_json::array();
  for (std::size_t i = begin; i < end; ++i) some.push_back(messages[i]);
  return some;
}

std::string KeyOfTools(const ordered_json& tools) {
  if (tools.is_null()) return "";
  return tools.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

template <class T>
void Append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Session::Session(const SessionParts& parts, const SampleRequest& request, std::int64_t now_ms)
    : parts_(parts),
      sampling_(request.sampling),
      min_version_(request.min_version),
      ended_ms_(now_ms) {}

Result<PolicyCall> Session::Begin(const PolicyAsk& ask, std::int64_t now_ms) {
  const EnvConfig& env = parts_.env;
  if (end_ != EpisodeEnd::kUnspecified)
    return FailedPrecondition("the episode has ended" + (failure_.empty() ? "" : ": " + failure_));
  if (answers() + open_ >= env.max_turns)
    return Limit(EpisodeEnd::kTurns, "run.env.max_turns", env.max_turns);
  PolicyCall call;
  if (!ask.messages.is_null()) {
    BUTTRESS_RETURN_IF_ERROR(PlaceChat(ask, call));
  } else {
    BUTTRESS_RETURN_IF_ERROR(ask.text.empty() ? PlaceTokens(ask, call) : PlaceText(ask, call));
  }
  const auto length = static_cast<std::int64_t>(call.prompt_token_ids.size());
  const std::int64_t first =
      call.parent < 0 ? length : answers_[static_cast<std::size_t>(call.parent)].first_prompt;
  // A conversation that begins with a longer prompt, such as one that an agent rewrites, has less.
  const std::int64_t prompt = std::min(first, parts_.max_prompt_tokens);
  std::int64_t most =
      std::min<std::int64_t>(sampling_.max_tokens, env.max_tokens + prompt - length);
  if (most < 1) {
    return Limit(EpisodeEnd::kTokens, "run.env.max_tokens", env.max_tokens,
                 fmt::format(" by a conversation of {} tokens", length));
  }
  if (ask.max_tokens > 0) most = std::min<std::int64_t>(most, ask.max_tokens);
  call.index = calls_++;
  call.sampling = sampling_;
  call.sampling.max_tokens = static_cast<std::int32_t>(most);
  call.sampling.seed = MixSeed(sampling_.seed, static_cast<std::uint64_t>(call.index));
  call.min_version = min_version_;
  if (call.parent >= 0) {
    const auto& segments = answers_[static_cast<std::size_t>(call.parent)].segments;
    if (!segments.empty() && OlderThan(min_version_, segments.back().version))
      call.min_version = segments.back().version;
  }
  call.asked_ms = now_ms;
  call.waited_ms = std::max<std::int64_t>(0, now_ms - ended_ms_);
  ++open_;
  return call;
}

Status Session::Limit(EpisodeEnd end, const char* setting, std::int64_t value,
                      std::string_view by) {
  if (answers_.empty() && open_ == 0) end = EpisodeEnd::kFailed;  // nothing to score
  End(end, fmt::format("{} = {} is reached{}", setting, value, by));
  return FailedPrecondition("the episode has ended: " + failure_);
}

Status Session::PlaceChat(const PolicyAsk& ask, PolicyCall& call) {
  if (parts_.turns == nullptr)
    return InvalidArgument("the model has no chat template; send a prompt to /completions");
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json messages, WithObjects(ask.messages));
  if (IsAssistant(messages.back()))
    return InvalidArgument("the last message is the assistant's; expected one that it answers");
  std::vector<std::string> keys;
  for (const ordered_json& message : messages) keys.push_back(KeyOf(message));
  call.chat = true;
  call.described = ask.tools;
  call.tools = KeyOfTools(ask.tools);
  std::size_t known = 0;
  call.parent = FindChat(keys, call.tools, known);
  const bool foreign = std::any_of(messages.begin() + static_cast<std::ptrdiff_t>(known),
                                   messages.end(), IsAssistant);
  if (foreign) call.parent = -1;
  if (call.parent >= 0) {
    const Answer& parent = answers_[static_cast<std::size_t>(call.parent)];
    const Answer* root = &parent;
    while (root->call.parent >= 0) root = &answers_[static_cast<std::size_t>(root->call.parent)];
    BUTTRESS_ASSIGN_OR_RETURN(
        const std::vector<std::int32_t> added,
        parts_.turns->Next(SomeOf(messages, 0, root->call.keys.size()),
                           SomeOf(messages, known, messages.size()), ask.tools, EndToken(parent)));
    call.prompt_token_ids = TokensOf(call.parent);
    call.added = added.size();
    Append(call.prompt_token_ids, added);
    call.keys.assign(keys.begin() + static_cast<std::ptrdiff_t>(known), keys.end());
    return OkStatus();
  }
  BUTTRESS_ASSIGN_OR_RETURN(call.prompt_token_ids, parts_.turns->First(messages, ask.tools));
  call.added = call.prompt_token_ids.size();
  for (const Answer& answer : answers_) {
    if (std::ranges::find(keys, answer.key) != keys.end())
      reencoded_ += static_cast<std::int64_t>(answer.token_ids.size());
  }
  call.keys = std::move(keys);
  return OkStatus();
}

// A conversation grows where it ends, if it can: a branch costs the tokens that it shares.
bool Session::IsBetter(std::int32_t candidate, std::size_t known, std::int32_t best,
                       std::size_t best_known) const {
  if (best < 0 || known != best_known) return known > best_known;
  return !answers_[static_cast<std::size_t>(candidate)].continued ||
         answers_[static_cast<std::size_t>(best)].continued;
}

// Returns the last answer of the longest conversation that the messages begin with and go on
// behind, and in `known` how many of them it has; -1 and 0 if there is none.
std::int32_t Session::FindChat(const std::vector<std::string>& keys, const std::string& tools,
                               std::size_t& known) const {
  std::vector<std::size_t> ends(answers_.size(), 0);  // messages up to the answer; 0: others
  std::int32_t best = -1;
  known = 0;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    const bool root = answer.call.parent < 0;
    const std::size_t begin = root ? 0 : ends[static_cast<std::size_t>(answer.call.parent)];
    const std::size_t end = begin + answer.call.keys.size();
    if (!answer.call.chat || (root ? answer.call.tools != tools : begin == 0)) continue;
    if (end + 1 >= keys.size() || keys[end] != answer.key) continue;
    if (!std::equal(answer.call.keys.begin(), answer.call.keys.end(),
                    keys.begin() + static_cast<std::ptrdiff_t>(begin)))
      continue;
    ends[i] = end + 1;
    if (IsBetter(static_cast<std::int32_t>(i), ends[i], best, known)) {
      best = static_cast<std::int32_t>(i);
      known = ends[i];
    }
  }
  return best;
}

Status Session::PlaceTokens(const PolicyAsk& ask, PolicyCall& call) const {
  if (ask.token_ids.empty()) return InvalidArgument("the prompt is empty");
  const std::int32_t vocabulary = parts_.encoder.tokenizer().vocab_size();
  for (const std::int32_t token : ask.token_ids) {
    if (token < 0 || token >= vocabulary)
      return InvalidArgument(
          fmt::format("the prompt has token {}; the model has {}", token, vocabulary));
  }
  std::span<const std::int32_t> rest;
  const auto begins_with = [&](const std::vector<std::int32_t>& tokens) {
    if (tokens.size() > rest.size() || !std::ranges::equal(tokens, rest.first(tokens.size())))
      return false;
    rest = rest.subspan(tokens.size());
    return true;
  };
  std::size_t known = 0;
  std::vector<std::size_t> ends(answers_.size(), 0);  // tokens up to the answer; 0: others
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    const bool root = answer.call.parent < 0;
    const std::size_t begin = root ? 0 : ends[static_cast<std::size_t>(answer.call.parent)];
    rest = std::span(ask.token_ids).subspan(begin);
    if ((!root && begin == 0) || !begins_with(answer.call.prompt_token_ids) ||
        !begins_with(answer.token_ids))
      continue;
    ends[i] = ask.token_ids.size() - rest.size();
    if (!IsBetter(static_cast<std::int32_t>(i), ends[i], call.parent, known)) continue;
    call.parent = static_cast<std::int32_t>(i);
    known = ends[i];
  }
  call.prompt_token_ids = ask.token_ids;
  call.added = ask.token_ids.size() - known;
  return OkStatus();
}

Status Session::PlaceText(const PolicyAsk& ask, PolicyCall& call) const {
  std::size_t known = 0;
  for (std::int32_t i = 0; i < answers(); ++i) {
    const std::string& text = answers_[static_cast<std::size_t>(i)].call.text;
    if (text.empty() || !ask.text.starts_with(text)) continue;
    if (!IsBetter(i, text.size(), call.parent, known)) continue;
    call.parent = i;
    known = text.size();
  }
  const std::string rest = ask.text.substr(known);
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::vector<std::int32_t> added,
      call.parent < 0 ? parts_.encoder.EncodeText(rest) : parts_.encoder.tokenizer().Encode(rest));
  if (call.parent >= 0) call.prompt_token_ids = TokensOf(call.parent);
  Append(call.prompt_token_ids, added);
  call.added = added.size();
  call.text = ask.text;
  return OkStatus();
}

Result<PolicyAnswer> Session::Finish(PolicyCall call, EngineResult sampled, std::int64_t now_ms) {
  --open_;
  BUTTRESS_ASSIGN_OR_RETURN(std::string text,
                            ResponseText(parts_.encoder.tokenizer(), sampled.token_ids,
                                         sampled.finish_reason, sampling_));
  PolicyAnswer given;
  given.turn = answers();
  given.text = ReplaceInvalidUtf8(text);
  if (call.chat) {
    given.message =
        ReadAnswer(given.text, parts_.format, std::exchange(call.described, ordered_json()));
  } else {
    given.message.content = given.text;
  }
  given.finish_reason = sampled.finish_reason;
  given.prompt_token_ids = call.prompt_token_ids;
  given.token_ids = sampled.token_ids;
  given.logprobs = sampled.logprobs;

  Answer answer;
  answer.key = KeyOf(MessageOf(given.message));
  answer.content = given.message.content;
  answer.token_ids = std::move(sampled.token_ids);
  answer.logprobs = std::move(sampled.logprobs);
  answer.segments = std::move(sampled.segments);
  answer.finish_reason = sampled.finish_reason;
  answer.turn.waited_ms = call.waited_ms;
  answer.turn.sampled_ms = now_ms - call.asked_ms;
  for (const ToolCall& tool : given.message.calls) answer.turn.tools.push_back(tool.name);
  answer.turn.tools.resize(answer.turn.tools.size() + given.message.bad.size());
  answer.turn.failed_tools = static_cast<std::int32_t>(given.message.bad.size());
  answer.first_prompt = static_cast<std::int32_t>(call.prompt_token_ids.size());
  if (call.parent >= 0) {
    Answer& parent = answers_[static_cast<std::size_t>(call.parent)];
    answer.first_prompt = parent.first_prompt;
    parent.continued = true;
  }
  if (!call.text.empty()) call.text += given.text;
  call.prompt_token_ids.erase(
      call.prompt_token_ids.begin(),
      call.prompt_token_ids.end() - static_cast<std::ptrdiff_t>(call.added));
  answer.call = std::move(call);
  answers_.push_back(std::move(answer));
  ended_ms_ = now_ms;
  tool_calls_ += static_cast<std::int64_t>(given.message.calls.size() + given.message.bad.size());
  if (tool_calls_ > parts_.env.max_tool_calls)
    Limit(EpisodeEnd::kTools, "run.env.max_tool_calls", parts_.env.max_tool_calls).IgnoreError();
  return given;
}

void Session::Grade(std::int32_t turn, double reward, std::vector<std::string> tools,
                    std::int32_t failed_tools) {
  EpisodeTurn& graded = answers_[static_cast<std::size_t>(turn)].turn;
  graded.reward += reward;
  graded.tools = std::move(tools);
  graded.failed_tools = failed_tools;
}

Status Session::AddReward(double reward) {
  if (answers_.empty())
    return InvalidArgument("the policy has not answered yet; reward it afterwards");
  // Sums of such rewards have the bounds that every reward has.
  if (!IsReward(reward_size_ + std::abs(reward)))
    return InvalidArgument(
        fmt::format("turn_reward: those of the episode add up to more than {}", kMaxReward));
  reward_size_ += std::abs(reward);
  answers_.back().turn.reward += reward;
  return OkStatus();
}

void Session::End(EpisodeEnd end, std::string failure) {
  if (end_ != EpisodeEnd::kUnspecified) return;
  end_ = end;
  failure_ = std::move(failure);
}

std::int64_t Session::sampled_tokens() const {
  return std::accumulate(answers_.begin(), answers_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Answer& answer) {
                           return sum + static_cast<std::int64_t>(answer.token_ids.size());
                         });
}

FinishReason Session::finish_reason() const {
  return answers_.empty() ? FinishReason::kStop : answers_.back().finish_reason;
}

// All tokens up to the end of the answer.
std::vector<std::int32_t> Session::TokensOf(std::int32_t answer) const {
  std::vector<const Answer*> path;
  for (std::int32_t i = answer; i >= 0; i = path.back()->call.parent)
    path.push_back(&answers_[static_cast<std::size_t>(i)]);
  std::vector<std::int32_t> tokens;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    Append(tokens, (*at)->call.prompt_token_ids);
    Append(tokens, (*at)->token_ids);
  }
  return tokens;
}

std::int32_t Session::EndToken(const Answer& answer) const {
  const bool stopped = answer.finish_reason == FinishReason::kStop && !answer.token_ids.empty() &&
                       std::ranges::count(sampling_.stop_token_ids, answer.token_ids.back()) > 0;
  return stopped ? answer.token_ids.back() : -1;
}

void Session::AppendTo(EpisodeBranch& branch, const Answer& answer) const {
  Append(branch.token_ids, answer.call.prompt_token_ids);
  branch.logprobs.resize(branch.token_ids.size(), 0);
  EpisodeTurn turn = answer.turn;
  for (std::string& tool : turn.tools)
    tool = FirstBytes(ReplaceInvalidUtf8(tool), kMaxToolNameBytes);
  turn.begin = static_cast<std::int32_t>(branch.token_ids.size());
  Append(branch.token_ids, answer.token_ids);
  Append(branch.logprobs, answer.logprobs);
  turn.end = static_cast<std::int32_t>(branch.token_ids.size());
  for (const Segment& segment : answer.segments) {
    if (branch.segments.empty() || branch.segments.back().version != segment.version)
      branch.segments.push_back({turn.begin + segment.first_token, segment.version});
  }
  branch.turns.push_back(std::move(turn));
  branch.finish_reason = answer.finish_reason;
}

Episode Session::Take() const {
  Episode episode;
  episode.end = end_;
  const bool failed = end_ == EpisodeEnd::kTime || end_ == EpisodeEnd::kFailed;
  if (failed) episode.failure = failure_;
  episode.reencoded_tokens = reencoded_;
  if (!answers_.empty()) episode.answer = answers_.back().content;
  // In the order of the calls, so that calls at once are in the same order every time.
  std::vector<std::size_t> order(answers_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [this](std::size_t i) { return answers_[i].call.index; });
  std::vector<std::int32_t> branch_of(answers_.size());
  std::vector<std::int32_t> ends;  // last answer of each branch
  for (const std::size_t i : order) {
    const Answer& answer = answers_[i];
    const std::int32_t parent = answer.call.parent;
    const auto before = static_cast<std::size_t>(parent);
    if (parent < 0 || ends[static_cast<std::size_t>(branch_of[before])] != parent) {
      EpisodeBranch branch;
      if (!episode.branches.empty()) branch.parent = parent < 0 ? 0 : branch_of[before];
      if (parent >= 0) branch.token_ids = TokensOf(parent);
      branch_of[i] = static_cast<std::int32_t>(episode.branches.size());
      episode.branches.push_back(std::move(branch));
      ends.push_back(0);
    } else {
      branch_of[i] = branch_of[before];
    }
    const auto at = static_cast<std::size_t>(branch_of[i]);
    ends[at] = static_cast<std::int32_t>(i);
    AppendTo(episode.branches[at], answer);
  }
  return episode;
}

}  // namespace buttress
