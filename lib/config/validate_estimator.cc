// Rules of run.algorithm's estimators.
#include <cmath>
#include <string>

#include "lib/config/rules.h"

namespace buttress {
namespace {

void CheckAvspo(const AvspoConfig& avspo, Rules& rules) {
  const std::string section = "run.algorithm.avspo.";
  const auto share = [&](const std::string& key, double value) {
    rules.Require(value >= 0 && value <= 1, section + key, value, "in [0, 1]");
  };
  const auto not_negative = [&](const std::string& key, double value) {
    rules.Require(value >= 0 && std::isfinite(value), section + key, value, "0 or more");
  };
  rules.OneOf(section + "mode", avspo.mode, {"noise", "opposite", "ladder", "prior"});
  share("acr_threshold", avspo.acr_threshold);
  not_negative("slope", avspo.slope);
  not_negative("noise_std", avspo.noise_std);
  not_negative("ladder.alpha", avspo.ladder.alpha);
  rules.Require(avspo.ladder.anchor > 0 && std::isfinite(avspo.ladder.anchor),
                section + "ladder.anchor", avspo.ladder.anchor, "above 0");
  share("ladder.strength", avspo.ladder.strength);
  share("ladder.threshold_rate", avspo.ladder.threshold_rate);
  share("ladder.threshold_min", avspo.ladder.threshold_min);
  share("ladder.threshold_max", avspo.ladder.threshold_max);
  rules.Require(avspo.ladder.threshold_min <= avspo.ladder.threshold &&
                    avspo.ladder.threshold <= avspo.ladder.threshold_max,
                section + "ladder.threshold", avspo.ladder.threshold,
                "between threshold_min and threshold_max");
  rules.Require(avspo.prior.kappa > 0 && std::isfinite(avspo.prior.kappa), section + "prior.kappa",
                avspo.prior.kappa, "above 0");
  not_negative("prior.confidence_count", avspo.prior.confidence_count);
  share("prior.strength_correct", avspo.prior.strength_correct);
  share("prior.strength_wrong", avspo.prior.strength_wrong);
}

}  // namespace

void CheckEstimators(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.OneOf(
      "run.algorithm.advantage", algorithm.advantage,
      {"grpo", "dr_grpo", "rloo", "opo", "reinforce_pp", "reinforce_pp_baseline", "gpg", "pass_k",
       "gdpo", "ngrpo", "rl_zvp", "w_reinforce", "reinforce_rej", "raft", "a_grae", "avspo"});
  rules.OneOf("run.algorithm.std", algorithm.std, {"sample", "population", "none"});
  rules.Require(algorithm.eps >= 0 && std::isfinite(algorithm.eps), "run.algorithm.eps",
                algorithm.eps, "0 or more");
  rules.OneOf("run.algorithm.a_grae.form", algorithm.a_grae.form, {"paper", "released"});
  rules.Require(algorithm.a_grae.alpha > 0 && algorithm.a_grae.alpha <= 1,
                "run.algorithm.a_grae.alpha", algorithm.a_grae.alpha, "in (0, 1]");
  rules.OneOf("run.algorithm.gpg.form", algorithm.gpg.form, {"verl", "official"});
  for (const double weight : algorithm.gdpo.weights) {
    rules.Require(std::isfinite(weight), "run.algorithm.gdpo.weights", weight, "finite numbers");
  }
  rules.Require(std::isfinite(algorithm.ngrpo.max_reward), "run.algorithm.ngrpo.max_reward",
                algorithm.ngrpo.max_reward, "a finite number");
  rules.Require(algorithm.rl_zvp.alpha >= 0 && std::isfinite(algorithm.rl_zvp.alpha),
                "run.algorithm.rl_zvp.alpha", algorithm.rl_zvp.alpha, "0 or more");
  rules.Require(algorithm.w_reinforce.positive_weight >= 0 &&
                    std::isfinite(algorithm.w_reinforce.positive_weight),
                "run.algorithm.w_reinforce.positive_weight", algorithm.w_reinforce.positive_weight,
                "0 or more");
  CheckAvspo(algorithm.avspo, rules);
}

}  // namespace buttress
