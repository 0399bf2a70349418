// A sample between Submit and its result, over all its attempts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/retry.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {

class OpenSample {
 public:
  // At most `max_tokens` tokens: the request's, or what the server has room for.
  OpenSample(SampleRequest sample, std::int32_t max_tokens)
      : request(std::move(sample)), max_tokens_(max_tokens), backoff_({}, request.sampling.seed) {}

  // The next attempt's id, "g17-l2-s3-a0": the sample's own, and the attempt, for a server refuses
  // an id that it still runs.
  std::string AttemptId() const;

  // What is still to be completed, under `version`.
  CompletionBody Begin(const std::string& model, const PolicyVersion& version);

  // Keeps the attempt's tokens; the next one goes on behind them.
  void KeepTokens();

  // Drops all tokens, counts a failure, and says how long to wait before the next attempt.
  std::int64_t StartOver();

  bool full() const { return static_cast<std::int32_t>(token_ids_.size()) >= max_tokens_; }

  bool begun() const { return !token_ids_.empty(); }

  bool attempted() const { return attempts_ > 0; }

  int failures() const { return backoff_.attempts(); }

  void CountFailure() { static_cast<void>(backoff_.NextMs()); }

  EngineResult Ended(FinishReason reason, Status status) const;
  // With its tokens.
  EngineResult Finished(FinishReason reason);

  const SampleRequest request;
  std::unique_ptr<CompletionStream> stream;  // of the attempt
  std::size_t server = 0;                    // of the attempt
  std::uint64_t transfer = 0;                // of the attempt
  std::int64_t not_before_ms = 0;
  std::int64_t waiting_since_ms = RealClock().MonotonicMs();

 private:
  const std::int32_t max_tokens_;
  const double submitted_seconds_ = MonotonicSeconds();
  Backoff backoff_;
  int attempts_ = 0;
  PolicyVersion version_;  // of the attempt
  std::vector<std::int32_t> token_ids_;
  std::vector<float> logprobs_;
  std::vector<Segment> segments_;
};

}  // namespace buttress
