#include "rollout_worker/scoring/reward_noise.h"

#include "lib/base/text/random.h"

namespace buttress {
namespace {

prometheus::Counter& Errors(Metrics& metrics, const char* error) {
  return metrics.Counter("buttress_worker_reward_noise_total",
                         "Outcomes that run.reward.noise turned over, by the error it made.",
                         {{"error", error}});
}

void Set(bool correct, Outcome& outcome, double& raw_reward) {
  outcome = correct ? Outcome::kCorrect : Outcome::kWrong;
  raw_reward = correct ? 1 : 0;
}

}  // namespace

std::unique_ptr<RewardNoise> RewardNoise::Make(const RewardNoiseConfig& config,
                                               std::uint64_t run_seed, Metrics& metrics) {
  if (config.false_positive == 0 && config.false_negative == 0) return nullptr;
  return std::make_unique<RewardNoise>(config, run_seed, metrics);
}

RewardNoise::RewardNoise(const RewardNoiseConfig& config, std::uint64_t run_seed, Metrics& metrics)
    : config_(config),
      seed_(MixSeed(run_seed, HashText("reward noise"))),
      false_positives_(Errors(metrics, "false_positive")),
      false_negatives_(Errors(metrics, "false_negative")) {}

void RewardNoise::Apply(std::string_view prompt, std::string_view response, Verdict& verdict) {
  if (verdict.outcome == Outcome::kUnscorable) return;
  const bool correct = verdict.outcome == Outcome::kCorrect;
  const RandomKey key{seed_, MixSeed(HashText(prompt), HashText(response))};
  if (UniformAt(key, 0) >= (correct ? config_.false_negative : config_.false_positive)) return;
  (correct ? false_negatives_ : false_positives_).Increment();
  Set(!correct, verdict.outcome, verdict.raw_reward);
  if (!verdict.parts.empty())
    Set(!correct, verdict.parts.front().outcome, verdict.parts.front().raw_reward);
}

}  // namespace buttress
