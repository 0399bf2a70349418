#include "rollout_worker/serve/generation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/net/secret.h"
#include "lib/base/text/random.h"
#include "lib/chat/tool_calls.h"
#include "lib/policy/stop_set.h"
#include "lib/verify/extract.h"
#include "rollout_worker/scoring/response_text.h"

namespace buttress {
namespace {

std::uint64_t AnySeed() {
  std::uint64_t seed = 0;
  std::memcpy(&seed, MakeSecret().data(), sizeof seed);
  return seed;
}

// The bytes at the end of a text that may begin a stop string, which the answer leaves out.
std::size_t HeldBytes(const SamplingParams& sampling) {
  std::size_t held = 0;
  for (const std::string& stop : sampling.stop) held = std::max(held, stop.size() - 1);
  return sampling.include_stop ? 0 : held;
}

}  // namespace

Generation::Generation(std::shared_ptr<ApiCall> call, OpenAiRequest request,
                       const ServedModel& model, ServeMetrics& metrics)
    : call_(std::move(call)),
      request_(std::move(request)),
      model_(model),
      metrics_(metrics),
      reply_(request_, *model.tokenizer, model.name) {}

Status Generation::Start(const std::shared_ptr<ApiCall>& call, OpenAiRequest request,
                         const ServedModel& model, ServeMetrics& metrics, EngineHub& hub) {
  BUTTRESS_RETURN_IF_ERROR(CheckModelName(request.model, model.name));
  const auto generation = std::make_shared<Generation>(call, std::move(request), model, metrics);
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<SampleRequest> samples, generation->Samples());
  BUTTRESS_ASSIGN_OR_RETURN(const std::uint64_t id, hub.Submit(std::move(samples), generation));
  call->OnGone([&hub, &metrics, id, path = std::string(call->path())] {
    metrics.CountAnswer(path, 499);
    hub.Cancel(id);
  });
  return OkStatus();
}

Result<std::vector<std::int32_t>> Generation::Encode(const OpenAiPrompt& prompt) const {
  if (const auto* const tokens = std::get_if<1>(&prompt)) {
    for (const std::int32_t token : *tokens) {
      if (token >= model_.config.vocab_size)
        return InvalidArgument(fmt::format("prompt = {} is not a token; the model has {}", token,
                                           model_.config.vocab_size));
    }
    return *tokens;
  }
  const std::string& text = std::get<0>(prompt);
  if (request_.add_special_tokens) return model_.encoder.EncodeText(text);
  return model_.tokenizer->Encode(text);
}

// Clients know these errors by what they begin with.
Status Generation::CheckLength(const std::vector<std::int32_t>& prompt) {
  if (prompt.empty()) return InvalidArgument("prompt is empty; expected at least one token");
  const std::int64_t room = model_.max_tokens - std::ssize(prompt);
  if (room < std::max(1, request_.max_tokens.value_or(1))) {
    return OutOfRange(fmt::format(
        "This model's maximum context length is {} tokens; the prompt has {} and the completion "
        "may have {}. Shorten the prompt or lower max_tokens.",
        model_.max_tokens, prompt.size(), request_.max_tokens.value_or(1)));
  }
  return OkStatus();
}

Result<std::vector<SampleRequest>> Generation::Samples() {
  if (request_.chat) {
    BUTTRESS_ASSIGN_OR_RETURN(
        prompts_.emplace_back(),
        EncodeChat(model_, request_.messages, true, request_.tools, request_.template_arguments));
  }
  if (request_.called_tool) {
    opening_ = OpeningOfCall(model_.tools, *request_.called_tool);
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::int32_t> tokens,
                              model_.tokenizer->Encode(opening_));
    prompts_.back().insert(prompts_.back().end(), tokens.begin(), tokens.end());
  }
  for (const OpenAiPrompt& prompt : request_.prompts) {
    BUTTRESS_ASSIGN_OR_RETURN(prompts_.emplace_back(), Encode(prompt));
  }
  const auto n = static_cast<std::size_t>(request_.n);
  if (static_cast<std::int64_t>(prompts_.size() * n) > model_.most_open) {
    return InvalidArgument(
        fmt::format("n = {} for {} prompts; this server has at most {} "
                    "completions open at once",
                    n, prompts_.size(), model_.most_open));
  }
  ModelConfig stops = model_.config;
  if (request_.ignore_eos) stops.eos_token_ids.clear();
  const std::uint64_t any = AnySeed();
  std::vector<SampleRequest> samples;
  for (std::size_t p = 0; p < prompts_.size(); ++p) {
    BUTTRESS_RETURN_IF_ERROR(CheckLength(prompts_[p]));
    SamplingParams sampling = request_.sampling;
    const auto room = static_cast<std::int32_t>(model_.max_tokens - std::ssize(prompts_[p]));
    sampling.max_tokens = std::max(1, request_.max_tokens.value_or(room));
    BUTTRESS_RETURN_IF_ERROR(DecideStops(stops, model_.tokenizer, sampling));
    for (std::int32_t i = 0; i < request_.n; ++i) {
      SampleRequest& sample = samples.emplace_back();
      sample.prompt_token_ids = prompts_[p];
      sample.sampling = sampling;
      sample.extras = request_.extras;
      sample.sampling.seed = OpenAiRequest::SeedOf(request_.seed.value_or(MixSeed(any, p)), i);
    }
    request_.sampling.stop = sampling.stop;
    request_.sampling.stop_token_ids = sampling.stop_token_ids;
    usage_.prompt_tokens += std::ssize(prompts_[p]);
  }
  open_ = samples.size();
  choices_.resize(open_);
  shown_.resize(open_);
  for (Shown& shown : shown_) shown.text.emplace(*model_.tokenizer, HeldBytes(request_.sampling));
  return samples;
}

// Adds the tokens that the choice has not shown.
void Generation::AddTokens(const EngineResult& result, Shown& shown, OpenAiChoice& choice) const {
  const auto begin = static_cast<std::ptrdiff_t>(std::min(shown.tokens, result.token_ids.size()));
  choice.index = result.id.index;
  choice.token_ids.assign(result.token_ids.begin() + begin, result.token_ids.end());
  choice.logprobs.assign(result.logprobs.begin() + begin, result.logprobs.end());
  if (request_.extras.top_logprobs > 0)
    choice.top_logprobs.assign(result.top_logprobs.begin() + begin, result.top_logprobs.end());
  choice.prompt_logprobs = result.prompt_logprobs;
  if (!shown.begun)
    choice.prompt_token_ids = prompts_[static_cast<std::size_t>(result.id.index / request_.n)];
  shown.tokens = result.token_ids.size();
}

// Tool calls are known when an answer is whole.
void Generation::OnProgress(const EngineResult& so_far) {
  if (failed_ || !request_.tools.is_null()) return;
  Shown& shown = shown_[static_cast<std::size_t>(so_far.id.index)];
  if (so_far.token_ids.size() <= shown.tokens) return;
  OpenAiChoice choice;
  AddTokens(so_far, shown, choice);
  choice.text = shown.text->Add(choice.token_ids);
  Send(shown, choice);
}

void Generation::OnDone(EngineResult result) {
  if (failed_) return;
  if (!result.status.ok()) return Fail(result.status);
  Shown& shown = shown_[static_cast<std::size_t>(result.id.index)];
  OpenAiChoice choice;
  // max_tokens = 0 asks for the prompt alone, which the engine scores for a token behind it.
  if (request_.max_tokens == 0) result.token_ids.clear();
  const Status read = ReadAnswerOf(result, choice);
  if (!read.ok()) return Fail(read);
  AddTokens(result, shown, choice);
  choice.finish_reason = request_.max_tokens == 0 ? FinishReason::kLength : result.finish_reason;
  usage_.completion_tokens += std::ssize(result.token_ids);
  if (request_.stream) {
    choice.text = shown.text->Finish(choice.text);
    Send(shown, choice);
  } else {
    choices_[static_cast<std::size_t>(result.id.index)] = std::move(choice);
  }
  if (--open_ == 0) End();
}

Status Generation::ReadAnswerOf(const EngineResult& result, OpenAiChoice& choice) const {
  BUTTRESS_ASSIGN_OR_RETURN(choice.text, ResponseText(*model_.tokenizer, result.token_ids,
                                                      result.finish_reason, request_.sampling));
  if (!request_.tools.is_null()) return ReadCalls(result.finish_reason, choice);
  if (!request_.echo) return OkStatus();
  const auto prompt = static_cast<std::size_t>(result.id.index / request_.n);
  const auto* const text = std::get_if<std::string>(&request_.prompts[prompt]);
  if (text != nullptr) {
    choice.text.insert(0, *text);
    return OkStatus();
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string decoded,
                            model_.tokenizer->Decode(prompts_[prompt], SpecialTokens::kSkip));
  choice.text.insert(0, decoded);
  return OkStatus();
}

// An answer whose calls cannot be read is a text, unless it had to be a call and was not cut.
Status Generation::ReadCalls(FinishReason reason, OpenAiChoice& choice) const {
  choice.text.insert(0, opening_);
  AssistantMessage answer = ReadAnswer(choice.text, model_.tools, request_.tools);
  if (request_.called_tool) {
    const std::string& name = *request_.called_tool;
    if (!name.empty() && answer.calls.size() > 1) answer.calls.resize(1);
    const bool asked = std::ranges::any_of(request_.tools, [&](const auto& tool) {
      const auto& known = tool["function"]["name"];
      return !answer.calls.empty() && answer.calls[0].name == known &&
             (name.empty() || name == known);
    });
    if (!asked && reason == FinishReason::kStop) {
      return Internal(
          fmt::format("the answer is not the call that tool_choice asks for, but: {}; try another "
                      "seed",
                      FirstBytes(choice.text, kShownBytes)));
    }
  }
  if (answer.calls.empty()) return OkStatus();
  choice.text = std::move(answer.content);
  choice.calls = std::move(answer.calls);
  return OkStatus();
}

void Generation::Send(Shown& shown, OpenAiChoice& choice) {
  if (!std::exchange(begun_, true)) {
    metrics_.first_token_seconds.Observe(
        static_cast<double>(RealClock().MonotonicMs() - begin_ms_) / 1000);
    call_->Begin(200, "text/event-stream");
  }
  if (!std::exchange(shown.begun, true)) call_->Write(reply_.FirstEvent(choice.index));
  choice.text_offset = shown.characters;
  call_->Write(reply_.Event(choice));
  shown.characters += CharactersOf(choice.text);
}

void Generation::Fail(const Status& status) {
  failed_ = true;
  if (status.code() != StatusCode::kCancelled)
    metrics_.CountAnswer(call_->path(), HttpCodeOf(status));
  if (!begun_) return call_->Reply(HttpCodeOf(status), kJsonType, ErrorBody(status));
  call_->Write(ErrorEvent(status));
  call_->End();
}

void Generation::End() {
  metrics_.CountAnswer(call_->path(), 200);
  metrics_.prompt_tokens.Increment(static_cast<double>(usage_.prompt_tokens));
  metrics_.completion_tokens.Increment(static_cast<double>(usage_.completion_tokens));
  metrics_.seconds.Observe(static_cast<double>(RealClock().MonotonicMs() - begin_ms_) / 1000);
  if (!request_.stream) return call_->Reply(200, kJsonType, reply_.Whole(choices_, usage_));
  call_->Write(reply_.LastEvents(usage_));
  call_->End();
}

}  // namespace buttress
