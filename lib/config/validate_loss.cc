// Rules of the loss: single settings, and combinations that make no sense.
#include <cmath>
#include <string>

#include "lib/config/rules.h"

namespace buttress {
namespace {

const std::string kSection = "run.algorithm.";

void Positive(const std::string& key, double value, Rules& rules) {
  rules.Require(value > 0 && std::isfinite(value), kSection + key, value, "above 0");
}

void NotNegative(const std::string& key, double value, Rules& rules) {
  rules.Require(value >= 0 && std::isfinite(value), kSection + key, value, "0 or more");
}

void Share(const std::string& key, double value, Rules& rules) {
  rules.Require(value > 0 && value <= 1, kSection + key, value, "in (0, 1]");
}

void CheckPolicyLoss(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.OneOf(kSection + "loss", algorithm.loss,
              {"ppo", "decoupled_ppo", "gspo", "gspo_token", "cispo", "gmpo", "sapo", "gpg",
               "dppo_tv", "dppo_kl", "clip_cov", "kl_cov"});
  const bool has_dual_clip = algorithm.loss == "ppo" || algorithm.loss == "decoupled_ppo";
  rules.Require(algorithm.dual_clip == 0 || has_dual_clip, kSection + "dual_clip",
                algorithm.dual_clip, "loss: " + algorithm.loss + " has none; set 0, or loss: ppo");
  const bool by_covariance = algorithm.loss == "clip_cov" || algorithm.loss == "kl_cov";
  rules.Require(!by_covariance || algorithm.advantage != "rl_zvp", kSection + "loss",
                algorithm.loss,
                "needs advantages before tokens are run, advantage: rl_zvp has them after; choose "
                "another loss or estimator");
  Positive("sapo.tau_positive", algorithm.sapo.tau_positive, rules);
  Positive("sapo.tau_negative", algorithm.sapo.tau_negative, rules);
  rules.Require(algorithm.dppo.cap >= 1 && std::isfinite(algorithm.dppo.cap), kSection + "dppo.cap",
                algorithm.dppo.cap, "1 or more");
  Share("clip_cov.share", algorithm.clip_cov.share, rules);
  rules.Require(algorithm.clip_cov.low < algorithm.clip_cov.high, kSection + "clip_cov.low",
                algorithm.clip_cov.low, "below clip_cov.high");
  Share("kl_cov.share", algorithm.kl_cov.share, rules);
  NotNegative("kl_cov.coef", algorithm.kl_cov.coef, rules);
}

void CheckCorrection(const AlgorithmConfig& algorithm, Rules& rules) {
  const CorrectionConfig& correction = algorithm.correction;
  rules.OneOf(kSection + "old_policy", algorithm.old_policy, {"sampler", "learner"});
  rules.OneOf(kSection + "correction.mode", correction.mode,
              {"none", "is", "tis", "mis", "icepop"});
  rules.OneOf(kSection + "correction.level", correction.level, {"token", "sequence", "geometric"});
  Positive("correction.cap", correction.cap, rules);
  rules.Require(
      correction.mode != "icepop" || (correction.floor > 0 && correction.floor < correction.cap),
      kSection + "correction.floor", correction.floor, "above 0 and below correction.cap");
  rules.Require(correction.mode == "none" || algorithm.old_policy != "sampler",
                kSection + "correction.mode", correction.mode,
                "weighs the learner's old policy against the sampler, and old_policy: sampler "
                "makes them the same; set old_policy: learner, "
                "or mode: none");
  if (algorithm.loss != "decoupled_ppo") return;
  rules.Require(algorithm.old_policy != "sampler" && correction.mode != "none", kSection + "loss",
                algorithm.loss,
                "is ppo with old_policy: learner and a correction.mode: mis with cap 5 as AReaL "
                "has it, tis, icepop, or is for no bound");
}

void CheckPenalties(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.OneOf(kSection + "kl_estimator", algorithm.kl_estimator, {"k1", "k2", "k3", "k3+"});
  rules.OneOf(kSection + "kl_in", algorithm.kl_in, {"loss", "reward"});
  NotNegative("kl_coef", algorithm.kl_coef, rules);
  rules.Require(algorithm.kl_in == "loss" || algorithm.kl_coef > 0, kSection + "kl_in",
                algorithm.kl_in, "needs kl_coef above 0");
  rules.Require(algorithm.kl_in == "loss" || algorithm.kl_estimator != "k3+",
                kSection + "kl_estimator", algorithm.kl_estimator,
                "differs from k3 in its gradient only, and kl_in: reward has none; set k3");
  const bool shapes = algorithm.kl_in == "reward" || algorithm.overlong.cache > 0;
  const bool reads_reward = algorithm.advantage != "gdpo" && algorithm.advantage != "w_reinforce";
  rules.Require(!shapes || reads_reward, kSection + "advantage", algorithm.advantage,
                "reads reward components or outcomes, not the reward that kl_in: reward and "
                "overlong.cache change; set kl_in: loss and "
                "overlong.cache: 0, or another estimator");
  const AdaptiveEntropyConfig& adaptive = algorithm.adaptive_entropy;
  NotNegative("entropy_coef", algorithm.entropy_coef, rules);
  NotNegative("adaptive_entropy.target", adaptive.target, rules);
  Positive("adaptive_entropy.step", adaptive.step, rules);
  NotNegative("adaptive_entropy.min", adaptive.min, rules);
  rules.Require(adaptive.min <= adaptive.max && std::isfinite(adaptive.max),
                kSection + "adaptive_entropy.max", adaptive.max, "adaptive_entropy.min or more");
  const bool within =
      adaptive.min <= algorithm.entropy_coef && algorithm.entropy_coef <= adaptive.max;
  rules.Require(adaptive.target == 0 || within, kSection + "entropy_coef", algorithm.entropy_coef,
                "where adaptive_entropy starts: between its min and max");
}

}  // namespace

void CheckLoss(const AlgorithmConfig& algorithm, Rules& rules) {
  CheckPolicyLoss(algorithm, rules);
  CheckCorrection(algorithm, rules);
  CheckPenalties(algorithm, rules);
  rules.OneOf(kSection + "aggregation", algorithm.aggregation,
              {"token_mean", "token_sum", "group_token_mean", "seq_mean_token_mean",
               "seq_mean_token_sum", "seq_mean_token_sum_norm"});
  NotNegative("length_norm", algorithm.length_norm, rules);
  rules.Require(algorithm.length_norm == 0 || algorithm.aggregation == "seq_mean_token_sum_norm",
                kSection + "length_norm", algorithm.length_norm,
                "is read by aggregation: seq_mean_token_sum_norm alone; set 0");
  rules.Require(algorithm.clip_low > 0 && algorithm.clip_low <= 1, kSection + "clip_low",
                algorithm.clip_low, "in (0, 1]");
  Positive("clip_high", algorithm.clip_high, rules);
  rules.Require(algorithm.dual_clip == 0 || algorithm.dual_clip > 1, kSection + "dual_clip",
                algorithm.dual_clip, "0 (off) or above 1");
  NotNegative("overlong.penalty", algorithm.overlong.penalty, rules);
  rules.Require(algorithm.overlong.length >= 0, kSection + "overlong.length",
                algorithm.overlong.length, "0 (sampling.max_tokens) or more");
  rules.Require(algorithm.overlong.cache >= 0, kSection + "overlong.cache",
                algorithm.overlong.cache, "0 (off) or more");
}

void CheckLossOfRun(const RunSettings& run, Rules& rules) {
  const AlgorithmConfig& algorithm = run.algorithm;
  const bool off_policy = run.batch.max_age > 0 && algorithm.correction.mode == "none";
  rules.Require(algorithm.loss != "gpg" || !off_policy, kSection + "loss", algorithm.loss,
                "has no ratio, so groups of older weights bias it; set run.batch.max_age: 0, or "
                "old_policy: learner and a correction.mode");
  const std::int64_t length =
      algorithm.overlong.length > 0 ? algorithm.overlong.length : run.sampling.max_tokens;
  rules.Require(algorithm.overlong.cache <= length, kSection + "overlong.cache",
                algorithm.overlong.cache,
                "at most the length that it ends at, " + std::to_string(length));
  rules.Require(length <= run.sampling.max_tokens, kSection + "overlong.length",
                algorithm.overlong.length,
                "at most run.sampling.max_tokens: no completion is longer");
}

}  // namespace buttress
