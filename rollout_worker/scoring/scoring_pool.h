// Decodes and verifies completions, alone or by group, on its own threads, in parallel with
// generation.
//
//   Submit ──► requests ──► threads: decode, verify ──► results ──► Poll
//
// Bound: at most `capacity` requests are inside (submitted and not yet polled). Submit rejects more
// instead of waiting, so that one thread can both submit and poll.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/report/metrics.h"
#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/scoring/second_verifier.h"

namespace buttress {

struct ScoreRequest {
  // Completions of one prompt by index: one, or all of them where ScoringPool::WantsGroups.
  std::vector<EngineResult> samples;
  // The responses of the samples, of an engine that has no tokens of them; empty: decoded.
  std::vector<std::string> texts = {};
  SamplingParams sampling;
  std::string source;      // selects the verifier
  std::string prompt;      // rendered text
  std::string answer;      // the dataset's reference answer
  std::string extra_json;  // the dataset's row
};

struct ScoredCompletion {
  EngineResult sample;
  // With one part for each reward component. Its texts are within lib/base/text/reward_bounds.h,
  // and the
  // rewards of an unscorable one are 0.
  Verdict verdict;
  Outcome second_outcome = Outcome::kUnspecified;  // by run.reward.second, if it looked
};

struct ScoringOptions {
  std::size_t threads = 1;
  // For one completion; afterwards it is unscorable with TimeoutReason.
  std::chrono::milliseconds timeout{5000};
  // From which reward on an episode counts as correct that has one.
  double correct_from = 1;
  // Whether a verifier judges such episodes too, because it is a sum: the reward of the episode
  // takes the place of the first part.
  bool sums = false;
  std::size_t capacity = 4096;  // requests inside at once
  std::shared_ptr<SecondVerifier> second =
      nullptr;  // verifies a share of the completions again; may be null
  std::shared_ptr<RewardNoise> noise = nullptr;  // errors of the outcomes; may be null
};

// Returns the limits and rules of `config`; the rest is as above.
ScoringOptions ScoringOptionsOf(const RewardConfig& config);

// Thread-safe. Of an episode the last answer is judged, unless the episode has a reward. A
// completion that cannot be scored (aborted, not decodable, timed out, rejected by
// the verifier) gets the outcome unscorable and the reason.
class ScoringPool {
 public:
  // Starts the threads. REQUIRES: `verifiers` come from VerifierSet::Make; `tokenizer`, `metrics`
  // and `clock` outlive the pool.
  static std::unique_ptr<ScoringPool> Start(std::shared_ptr<const VerifierSet> verifiers,
                                            const Tokenizer& tokenizer,
                                            const ScoringOptions& options, Metrics& metrics,
                                            const Clock& clock = RealClock());

  // Stops each thread after its current item and drops the other requests.
  virtual ~ScoringPool() = default;

  // Tells reward functions the length of the run, which they do not know before.
  virtual void SetSteps(std::int64_t steps) = 0;

  // Whether a request of `source` must have all completions of its prompt, because their verdicts
  // may depend on one another.
  virtual bool WantsGroups(std::string_view source) const = 0;

  // Never blocks. kResourceExhausted, with `request` unchanged, when `capacity` requests are
  // inside: the caller polls and submits again.
  virtual Status Submit(ScoreRequest& request) = 0;

  // Waits up to `timeout` for the results of requests, which are in any order; empty if there are
  // none.
  virtual std::vector<ScoredCompletion> Poll(std::chrono::milliseconds timeout) = 0;

  // Returns the number of requests that are submitted and not yet polled.
  virtual std::size_t inside() const = 0;
};

}  // namespace buttress
