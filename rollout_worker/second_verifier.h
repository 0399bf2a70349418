// A second, independent verifier of some completions: how often two disagree says how far one can
// be trusted. Nothing is trained on it.
#pragma once

#include <memory>
#include <string>

#include "lib/base/metrics.h"
#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "lib/config/run_config.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Thread-safe.
class SecondVerifier {
 public:
  // Null if run.reward.second names none. `metrics` outlives this.
  static Result<std::unique_ptr<SecondVerifier>> Make(const RewardConfig& config, Metrics& metrics);

  // REQUIRES: `verifier` is not null.
  SecondVerifier(std::unique_ptr<Verifier> verifier, std::string name, double share,
                 Metrics& metrics);

  // Judges the completion again if it is in the share, which is drawn by its id, and counts whether
  // the two agree. One that either cannot score counts for itself.
  void Check(const SampleId& id, const VerifyRequest& request, const Verdict& first);

 private:
  const std::unique_ptr<Verifier> verifier_;
  const double share_;
  prometheus::Counter& agree_;
  prometheus::Counter& disagree_;
  prometheus::Counter& unscorable_;
  prometheus::Gauge& rate_;
  Mutex mutex_;  // so that the rate is of counts that belong together
};

}  // namespace buttress
