#include "rollout_worker/scoring/second_verifier.h"

#include <utility>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

prometheus::Counter& Results(Metrics& metrics, const std::string& name, const char* result) {
  return metrics.Counter(
      "buttress_worker_second_verdicts_total",
      "Completions that a second verifier verified, by whether it agreed with the first.",
      {{"second", name}, {"result", result}});
}

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

Result<std::unique_ptr<SecondVerifier>> SecondVerifier::Make(const RewardConfig& config,
                                                             Metrics& metrics) {
  const SecondVerifierConfig& second = config.second;
  if (second.verifier.empty() || second.share == 0) return std::unique_ptr<SecondVerifier>();
  Result<std::unique_ptr<Verifier>> verifier = MakeVerifier(second.verifier, config);
  if (!verifier.ok()) return verifier.status().Annotate("run.reward.second.verifier");
  return std::make_unique<SecondVerifier>(*std::move(verifier), second.verifier, second.share,
                                          metrics);
}

SecondVerifier::SecondVerifier(std::unique_ptr<Verifier> verifier, std::string name, double share,
                               Metrics& metrics)
    : verifier_(std::move(verifier)),
      share_(share),
      agree_(Results(metrics, name, "agree")),
      disagree_(Results(metrics, name, "disagree")),
      unscorable_(Results(metrics, name, "unscorable")),
      rate_(metrics.Gauge("buttress_worker_verifier_disagreement_rate",
                          "Share of the completions scored by both verifiers on which they "
                          "disagree, since the start.",
                          {{"second", name}})) {}

std::vector<Outcome> SecondVerifier::Check(std::span<const EngineResult> samples,
                                           std::span<const VerifyRequest> requests,
                                           std::span<const Verdict> first) {
  std::vector<Outcome> outcomes(samples.size(), Outcome::kUnspecified);
  if (whole_groups()) {
    if (!Chosen({.group_id = samples.front().id.group_id})) return outcomes;
    const std::vector<Verdict> verdicts = verifier_->VerifyGroup(requests);
    for (std::size_t i = 0; i < samples.size(); ++i)
      outcomes[i] = Count(first[i], verdicts[i].outcome);
    return outcomes;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (Chosen(samples[i].id))
      outcomes[i] = Count(first[i], verifier_->Verify(requests[i]).outcome);
  }
  return outcomes;
}

bool SecondVerifier::Chosen(const SampleId& id) const {
  const RandomKey key{HashText("second verifier"), MixSeed(static_cast<std::uint64_t>(id.group_id),
                                                           static_cast<std::uint64_t>(id.index))};
  return UniformAt(key, 0) < share_;
}

Outcome SecondVerifier::Count(const Verdict& first, Outcome second) {
  const MutexLock lock(mutex_);
  if (first.outcome == Outcome::kUnscorable || second == Outcome::kUnscorable) {
    unscorable_.Increment();
    return second;
  }
  (first.outcome == second ? agree_ : disagree_).Increment();
  rate_.Set(disagree_.Value() / (agree_.Value() + disagree_.Value()));
  return second;
}

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

std::uint64_t RewardNoise::StreamOf(const SampleId& id, std::string_view prompt,
                                    std::string_view response) const {
  if (config_.by == NoiseBy::kText) return MixSeed(HashText(prompt), HashText(response));
  return MixSeed(id.group_id, static_cast<std::uint64_t>(id.index));
}

void RewardNoise::Apply(const SampleId& id, std::string_view prompt, std::string_view response,
                        Verdict& verdict) {
  if (verdict.outcome == Outcome::kUnscorable) return;
  const bool correct = verdict.outcome == Outcome::kCorrect;
  const RandomKey key{seed_, StreamOf(id, prompt, response)};
  if (UniformAt(key, 0) >= (correct ? config_.false_negative : config_.false_positive)) return;
  (correct ? false_negatives_ : false_positives_).Increment();
  Set(!correct, verdict.outcome, verdict.raw_reward);
  if (!verdict.parts.empty())
    Set(!correct, verdict.parts.front().outcome, verdict.parts.front().raw_reward);
}

}  // namespace buttress
