// A sample between Submit and its result, with all its attempts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/tokenizer/stop_matcher.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {

// An attempt is one HTTP request for a completion. Not thread-safe.
class OpenSample {
 public:
  // `max_tokens` is that of the request, or fewer if the server has no room for them. `tokenizer`
  // may be null if the request has no stop strings.
  OpenSample(SampleRequest sample, std::int32_t max_tokens, const Tokenizer* tokenizer);

  // The oldest version that the next attempt may have: versions only rise within a completion.
  const PolicyVersion& oldest() const;

  // Returns the id of the next attempt, as in "g17-l2-s3-a0". It contains the number of the
  // attempt, because a server refuses an id that it still runs.
  std::string AttemptId() const;

  // Starts an attempt under `version`. Returns the request for the tokens that are missing.
  CompletionBody Begin(const std::string& model, const PolicyVersion& version);

  // Holds the attempt: what it brings from here on counts only after Continue.
  void Hold() { held_ = stream->token_ids().size(); }

  bool held() const { return held_.has_value(); }

  // Ends the hold, with what the attempt has brought meanwhile: the server went on, and has proven
  // `version`. These tokens and those of the next message count as older ones, which some of them
  // may be, because the server sends several at a time.
  void Continue(const PolicyVersion& version) {
    held_.reset();
    next_version_ = version;
  }

  // Reads bytes of the stream.
  Status Read(std::string_view bytes);

  // Ends the attempt and keeps its tokens, but for those of a hold, so that the next one continues
  // behind them. Returns the number of tokens that are dropped.
  std::int64_t KeepTokens();

  // Ends the attempt if there is one, and drops the tokens of all attempts. Returns their number.
  std::int64_t DropAll();

  // Ends the attempt and drops its tokens; those of earlier attempts stay.
  void DropAttempt();

  // Returns the tokens that a next attempt would continue behind; those of a completion that the
  // current attempt has ended, but not reported, are missing.
  EngineResult Unfinished() const;

  // Whether the completion has max_tokens tokens; any attempt.
  bool full() const { return static_cast<std::int32_t>(kept_.token_ids.size()) >= max_tokens_; }

  // Tokens of all attempts that have ended.
  std::int64_t tokens() const { return static_cast<std::int64_t>(kept_.token_ids.size()); }

  // Failures in a row that brought no token.
  int failures() const { return backoff_.attempts(); }

  // Counts a failure, and returns the milliseconds to wait before the next attempt.
  std::int64_t CountFailure() { return backoff_.NextMs(); }

  // Returns a result without tokens.
  EngineResult Ended(FinishReason reason, Status status) const;

  // Returns a successful result with the tokens, which it moves.
  EngineResult Finished(FinishReason reason);

  const SampleRequest request;
  // Of the current attempt:
  std::unique_ptr<CompletionStream> stream;
  std::size_t server = 0;
  std::uint64_t transfer = 0;

  std::int64_t not_before_ms = 0;                            // earliest start of the next attempt
  std::int64_t seen_may_run_ms = RealClock().MonotonicMs();  // when a server last could take it

 private:
  StopMatcher NewMatcher() const;
  // Adds the first `count` tokens of the current attempt to those before.
  void AddAttempt(std::size_t count, EngineResult& to) const;

  const Tokenizer* const tokenizer_;
  const std::int32_t max_tokens_;
  Backoff backoff_;
  StopMatcher stops_;  // has read the tokens of this attempt and of those before it
  int attempts_ = 0;
  PolicyVersion version_;                      // of the current attempt
  std::optional<std::size_t> held_;            // its tokens at Hold
  std::optional<PolicyVersion> next_version_;  // from the message after the next on
  std::vector<Segment> changes_;               // in the current attempt, by its own tokens
  EngineResult kept_;                          // the tokens before this attempt
};

}  // namespace buttress
