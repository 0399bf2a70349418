#include "rollout_worker/vllm/open_sample.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/text/random.h"

namespace buttress {

OpenSample::OpenSample(SampleRequest sample, std::int32_t max_tokens, const Tokenizer* tokenizer)
    : request(std::move(sample)),
      tokenizer_(tokenizer),
      max_tokens_(max_tokens),
      backoff_({}, request.sampling.seed) {
  kept_.token_ids = request.begun.token_ids;
  kept_.logprobs = request.begun.logprobs;
  kept_.segments = request.begun.segments;
  DropAttempt();
}

std::string OpenSample::AttemptId() const {
  return fmt::format("g{}-l{}-s{}-a{}", request.id.group_id, request.id.lease_epoch,
                     request.id.index, attempts_);
}

const PolicyVersion& OpenSample::oldest() const {
  if (kept_.segments.empty()) return request.min_version;
  const PolicyVersion& last = kept_.segments.back().version;
  return OlderThan(last, request.min_version) ? request.min_version : last;
}

CompletionBody OpenSample::Begin(const std::string& model, const PolicyVersion& version) {
  ++attempts_;
  version_ = version;
  held_.reset();
  next_version_.reset();
  changes_.clear();
  CompletionBody body;
  body.model = model;
  body.prompt_token_ids = request.prompt_token_ids;
  body.prompt_token_ids.insert(body.prompt_token_ids.end(), kept_.token_ids.begin(),
                               kept_.token_ids.end());
  body.sampling = request.sampling;
  body.sampling.max_tokens = max_tokens_ - static_cast<std::int32_t>(kept_.token_ids.size());
  body.sampling.min_tokens =
      std::clamp(request.sampling.min_tokens - static_cast<std::int32_t>(kept_.token_ids.size()), 0,
                 body.sampling.max_tokens);
  // sampling.stop_token_ids has the end-of-sequence tokens too, so that engines end alike.
  body.ignore_eos = true;
  // The same seed would draw the random numbers of the first tokens again.
  if (!kept_.token_ids.empty())
    body.sampling.seed = MixSeed(request.sampling.seed, kept_.token_ids.size());
  body.cache_salt = fmt::format("w{}-{}", version.learner_epoch, version.step);
  stream = std::make_unique<CompletionStream>(body.prompt_token_ids.size(),
                                              body.sampling.max_tokens, &stops_);
  return body;
}

Status OpenSample::Read(std::string_view bytes) {
  const std::size_t before = stream->token_ids().size();
  const Status status = stream->Read(bytes);
  const std::size_t after = stream->token_ids().size();
  if (next_version_ && after > before) {
    changes_.push_back({static_cast<std::int32_t>(after), *std::move(next_version_)});
    next_version_.reset();
  }
  return status;
}

void OpenSample::AddAttempt(std::size_t count, EngineResult& to) const {
  const auto first = static_cast<std::int32_t>(to.token_ids.size());
  if (count > 0 && (to.segments.empty() || !(to.segments.back().version == version_)))
    to.segments.push_back({first, version_});
  for (const Segment& change : changes_) {
    if (static_cast<std::size_t>(change.first_token) < count)
      to.segments.push_back({first + change.first_token, change.version});
  }
  const auto end = static_cast<std::ptrdiff_t>(count);
  to.token_ids.insert(to.token_ids.end(), stream->token_ids().begin(),
                      stream->token_ids().begin() + end);
  to.logprobs.insert(to.logprobs.end(), stream->logprobs().begin(),
                     stream->logprobs().begin() + end);
}

EngineResult OpenSample::Unfinished() const {
  EngineResult result = Ended(FinishReason::kUnspecified, OkStatus());
  result.token_ids = kept_.token_ids;
  result.logprobs = kept_.logprobs;
  result.segments = kept_.segments;
  const bool open =
      stream && !stream->cut() && stream->finish_reason() == FinishReason::kUnspecified;
  if (open) AddAttempt(held_.value_or(stream->token_ids().size()), result);
  return result;
}

std::int64_t OpenSample::KeepTokens() {
  const std::size_t all = stream->token_ids().size(), kept = held_.value_or(all);
  if (kept > 0) backoff_.Reset();
  AddAttempt(kept, kept_);
  if (kept < all) {
    DropAttempt();
  } else {
    stream.reset();
  }
  held_.reset();
  return static_cast<std::int64_t>(all - kept);
}

std::int64_t OpenSample::DropAll() {
  const std::size_t tokens = kept_.token_ids.size() + (stream ? stream->token_ids().size() : 0);
  kept_ = {};
  DropAttempt();
  return static_cast<std::int64_t>(tokens);
}

void OpenSample::DropAttempt() {
  stream.reset();
  held_.reset();
  stops_ = NewMatcher();
  for (const std::int32_t token : kept_.token_ids) stops_.Completes(token);
}

StopMatcher OpenSample::NewMatcher() const {
  if (request.sampling.stop.empty()) return {};
  return StopMatcher(*tokenizer_, request.sampling.stop, request.sampling.min_tokens);
}

EngineResult OpenSample::Ended(FinishReason reason, Status status) const {
  EngineResult result;
  result.id = request.id;
  result.finish_reason = reason;
  result.status = std::move(status);
  return result;
}

EngineResult OpenSample::Finished(FinishReason reason) {
  EngineResult result = Ended(reason, OkStatus());
  result.token_ids = std::move(kept_.token_ids);
  result.logprobs = std::move(kept_.logprobs);
  result.segments = std::move(kept_.segments);
  return result;
}

}  // namespace buttress
