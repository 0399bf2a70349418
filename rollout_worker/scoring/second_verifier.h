// A second, independent verifier for a share of the completions. The rate of disagreement estimates
// how reliable the first verifier is; nothing is trained on it. And RewardNoise, errors that are
// made on purpose.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/metrics.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "lib/config/sections/reward_config.h"
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

  // Whether it must be given all completions of a prompt.
  bool whole_groups() const { return verifier_->whole_groups(); }

  // Verifies the completions of one prompt that belong to the share, counts whether the verdicts
  // agree, and returns the second outcomes; kUnspecified outside of the share. The ids of `samples`
  // determine the share: of a whole group that of the group. Completions that either verifier
  // cannot score are counted separately. REQUIRES: `requests` and `first` are those of `samples`.
  std::vector<Outcome> Check(std::span<const EngineResult> samples,
                             std::span<const VerifyRequest> requests,
                             std::span<const Verdict> first);

 private:
  bool Chosen(const SampleId& id) const;
  Outcome Count(const Verdict& first, Outcome second);

  const std::unique_ptr<Verifier> verifier_;
  const double share_;
  prometheus::Counter& agree_;
  prometheus::Counter& disagree_;
  prometheus::Counter& unscorable_;
  prometheus::Gauge& rate_;
  Mutex mutex_;  // makes the rate consistent with the counts
};

// Errors of a verifier that are made on purpose (run.reward.noise), to study what they do to
// training. Everything after it, the ACR of the run included, sees the noisy outcomes; evaluations
// and the second verifier see those of the verifier. Thread-safe.
class RewardNoise {
 public:
  // Returns null if both chances are 0. REQUIRES: `metrics` outlives this.
  static std::unique_ptr<RewardNoise> Make(const RewardNoiseConfig& config, std::uint64_t run_seed,
                                           Metrics& metrics);

  RewardNoise(const RewardNoiseConfig& config, std::uint64_t run_seed, Metrics& metrics);

  // Turns a wrong verdict into a correct one with the chance false_positive, and a correct one into
  // a wrong one with the chance false_negative: the outcome, and the raw reward, of the first part
  // of a weighted sum, with it. What run.reward.noise.by names and the run's seed alone decide, so
  // that the same completion turns alike on every worker, after a restart and after a lease that
  // expired. Unscorable verdicts stay.
  void Apply(const SampleId& id, std::string_view prompt, std::string_view response,
             Verdict& verdict);

 private:
  std::uint64_t StreamOf(const SampleId& id, std::string_view prompt,
                         std::string_view response) const;

  const RewardNoiseConfig config_;
  const std::uint64_t seed_;
  prometheus::Counter& false_positives_;
  prometheus::Counter& false_negatives_;
};

}  // namespace buttress
