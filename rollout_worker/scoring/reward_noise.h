// Errors of a verifier that are made on purpose (run.reward.noise), to study what they do to
// training. Everything after it, the ACR of the run included, sees the noisy outcomes; evaluations
// and the second verifier see those of the verifier.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/base/report/metrics.h"
#include "lib/config/reward_config.h"
#include "lib/verify/verifier.h"

namespace buttress {

// Thread-safe.
class RewardNoise {
 public:
  // Returns null if both chances are 0. REQUIRES: `metrics` outlives this.
  static std::unique_ptr<RewardNoise> Make(const RewardNoiseConfig& config, std::uint64_t run_seed,
                                           Metrics& metrics);

  RewardNoise(const RewardNoiseConfig& config, std::uint64_t run_seed, Metrics& metrics);

  // Turns a wrong verdict into a correct one with the chance false_positive, and a correct one into
  // a wrong one with the chance false_negative: the outcome, and the raw reward, of the first part
  // of a weighted sum, with it. The texts and the run's seed alone decide, so that the same
  // completion turns alike on every worker and after a restart. Unscorable verdicts stay.
  void Apply(std::string_view prompt, std::string_view response, Verdict& verdict);

 private:
  const RewardNoiseConfig config_;
  const std::uint64_t seed_;
  prometheus::Counter& false_positives_;
  prometheus::Counter& false_negatives_;
};

}  // namespace buttress
