#include "rollout_worker/vllm/open_sample.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/text/random.h"

namespace buttress {

std::string OpenSample::AttemptId() const {
  return fmt::format("g{}-l{}-s{}-a{}", request.id.group_id, request.id.lease_epoch,
                     request.id.index, attempts_);
}

const PolicyVersion& OpenSample::oldest() const {
  return segments_.empty() ? request.min_version : segments_.back().version;
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
  body.prompt_token_ids.insert(body.prompt_token_ids.end(), token_ids_.begin(), token_ids_.end());
  body.sampling = request.sampling;
  body.sampling.max_tokens = max_tokens_ - static_cast<std::int32_t>(token_ids_.size());
  body.sampling.min_tokens =
      std::clamp(request.sampling.min_tokens - static_cast<std::int32_t>(token_ids_.size()), 0,
                 body.sampling.max_tokens);
  // sampling.stop_token_ids has the end-of-sequence tokens too, so that engines end alike.
  body.ignore_eos = true;
  // The same seed would draw the random numbers of the first tokens again.
  if (!token_ids_.empty()) body.sampling.seed = MixSeed(request.sampling.seed, token_ids_.size());
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

std::int64_t OpenSample::KeepTokens() {
  const auto first = static_cast<std::int32_t>(token_ids_.size());
  const std::size_t all = stream->token_ids().size(), kept = held_.value_or(all);
  if (kept > 0) {
    backoff_.Reset();
    if (segments_.empty() || !(segments_.back().version == version_))
      segments_.push_back({first, version_});
  }
  for (const Segment& change : changes_) {
    if (static_cast<std::size_t>(change.first_token) < kept)
      segments_.push_back({first + change.first_token, change.version});
  }
  const auto end = static_cast<std::ptrdiff_t>(kept);
  token_ids_.insert(token_ids_.end(), stream->token_ids().begin(),
                    stream->token_ids().begin() + end);
  logprobs_.insert(logprobs_.end(), stream->logprobs().begin(), stream->logprobs().begin() + end);
  if (kept < all) {
    DropAttempt();
  } else {
    stream.reset();
  }
  held_.reset();
  return static_cast<std::int64_t>(all - kept);
}

std::int64_t OpenSample::DropAll() {
  const std::size_t tokens = token_ids_.size() + (stream ? stream->token_ids().size() : 0);
  token_ids_.clear();
  logprobs_.clear();
  segments_.clear();
  DropAttempt();
  return static_cast<std::int64_t>(tokens);
}

void OpenSample::DropAttempt() {
  stream.reset();
  held_.reset();
  stops_ = NewMatcher();
  for (const std::int32_t token : token_ids_) stops_.Completes(token);
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
  result.token_ids = std::move(token_ids_);
  result.logprobs = std::move(logprobs_);
  result.segments = std::move(segments_);
  return result;
}

}  // namespace buttress
