// Decodes and verifies completions on threads of its own, beside generation.
//
//   worker ──Submit──► requests ──► threads: decode, verify, fill the reward fields ──► results
//   ──Poll──► worker
//
// Bound: at most `capacity` requests are inside (submitted and not yet polled); Submit refuses more
// instead of waiting, so one thread may both submit and poll.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/second_verifier.h"

namespace buttress {

struct ScoreRequest {
  SampleId id;
  std::string source;      // picks the verifier
  std::string prompt;      // rendered text
  std::string answer;      // the dataset's reference answer
  std::string extra_json;  // the dataset's row
  Completion completion;
};

// The completion with outcome, raw_reward, reward, components, unscorable_reason and
// extracted_answer set.
struct ScoredCompletion {
  SampleId id;
  Completion completion;
};

struct ScoringOptions {
  std::size_t threads = 1;
  std::chrono::milliseconds timeout{
      5000};  // of one completion or batch; past it the outcome is unscorable("timeout")
  std::size_t capacity = 4096;                       // requests inside at once
  std::shared_ptr<SecondVerifier> second = nullptr;  // sees some of them too; null: none
};

// Thread-safe. What cannot be scored (aborted, undecodable, over its time, refused by the verifier)
// comes back unscorable with the reason.
class ScoringPool {
 public:
  // Starts the threads. `verifiers` have passed their known answers (VerifierSet::Make);
  // `tokenizer`, `metrics` and `clock` outlive the pool.
  static std::unique_ptr<ScoringPool> Start(std::unique_ptr<const VerifierSet> verifiers,
                                            const Tokenizer& tokenizer,
                                            const ScoringOptions& options, Metrics& metrics,
                                            const Clock& clock = RealClock());

  // Stops the threads after the item each is at; what is inside is dropped.
  virtual ~ScoringPool() = default;

  // Never blocks. kResourceExhausted when `capacity` requests are inside: Poll, then submit again;
  // `request` is then unchanged.
  virtual Status Submit(ScoreRequest& request) = 0;

  // Waits up to `timeout` for results; empty if none came. In any order.
  virtual std::vector<ScoredCompletion> Poll(std::chrono::milliseconds timeout) = 0;

  // Submitted and not yet polled.
  virtual std::size_t inside() const = 0;
};

}  // namespace buttress
