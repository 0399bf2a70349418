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

void OpenSample::KeepTokens() {
  if (!stream->token_ids().empty()) {
    backoff_.Reset();
    if (segments_.empty() || !(segments_.back().version == version_))
      segments_.push_back({static_cast<std::int32_t>(token_ids_.size()), version_});
  }
  token_ids_.insert(token_ids_.end(), stream->token_ids().begin(), stream->token_ids().end());
  logprobs_.insert(logprobs_.end(), stream->logprobs().begin(), stream->logprobs().end());
  stream.reset();
}

void OpenSample::DropAttempt() {
  stream.reset();
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
