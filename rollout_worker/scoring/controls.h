// Scores controls, answers whose verdict is known, with the verifiers of the run, on a thread of
// its own: what the run trains on neither waits for them nor depends on them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/thread/bounded_queue.h"
#include "lib/base/thread/sync.h"
#include "lib/config/sections/reward_config.h"
#include "lib/experience/lease.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/scoring/second_verifier.h"

namespace buttress {

// Thread-safe.
class ControlScorer {
 public:
  // Starts the thread. `noise` may be null: errors that are made on purpose are made here as well.
  ControlScorer(std::shared_ptr<const VerifierSet> verifiers, const RewardConfig& config,
                std::shared_ptr<RewardNoise> noise);

  // Stops the thread after its current control.
  ~ControlScorer();

  // Makes a control of the lease's reference answer and scores it some time later: of each source
  // the answer itself and a spoiled one in turns. Where the verifier allows none, the verdict has
  // the outcome unspecified. Controls beyond kMost waiting ones are dropped.
  void Score(Lease lease, std::string prompt_text);

  // Adds the verdicts to `request` that no answered request has carried. MarkReported completes it.
  void Report(v1::ExchangeRequest& request) const;

  // Forgets the verdicts that `request` has reported.
  void MarkReported(const v1::ExchangeRequest& request);

 private:
  static constexpr std::size_t kMost = 64;

  struct Job {
    Lease lease;
    std::string prompt_text;
  };

  void Work();
  v1::ControlVerdict VerdictOf(const Job& job);
  Verdict Verify(const Job& job, const std::string& response) const;

  const std::shared_ptr<const VerifierSet> verifiers_;
  const RewardConfig config_;
  const std::shared_ptr<RewardNoise> noise_;
  std::map<std::string, std::uint64_t> turns_;  // by source, of the thread alone
  BoundedQueue<Job> jobs_;
  mutable Mutex mutex_;
  std::vector<v1::ControlVerdict> verdicts_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
