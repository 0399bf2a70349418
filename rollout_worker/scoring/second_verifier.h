// A second, independent verifier for a share of the completions. The rate of disagreement estimates
// how reliable the first verifier is; nothing is trained on it.
#pragma once

#include <memory>
#include <string>

#include "lib/base/report/metrics.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Thread-safe.
class SecondVerifier {
 public:
  // Returns null if run.reward.second names no verifier. REQUIRES: `metrics` outlives this.
  static Result<std::unique_ptr<SecondVerifier>> Make(const RewardConfig& config, Metrics& metrics);

  // REQUIRES: `verifier` is not null.
  SecondVerifier(std::unique_ptr<Verifier> verifier, std::string name, double share,
                 Metrics& metrics);

  // Verifies the completion if it belongs to the share, which its id determines, counts whether the
  // verdicts agree, and returns the second outcome; kUnspecified outside of the share. A completion
  // that either verifier cannot score is counted separately.
  Outcome Check(const SampleId& id, const VerifyRequest& request, const Verdict& first);

 private:
  const std::unique_ptr<Verifier> verifier_;
  const double share_;
  prometheus::Counter& agree_;
  prometheus::Counter& disagree_;
  prometheus::Counter& unscorable_;
  prometheus::Gauge& rate_;
  Mutex mutex_;  // makes the rate consistent with the counts
};

}  // namespace buttress
