// Rules of run.algorithm: combinations of estimators and losses that make no sense.
#include <algorithm>
#include <iterator>

#include "lib/config/rules/rules.h"
#include "lib/config/token_bounds.h"

namespace buttress {
namespace {

void CheckPolicyLoss(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.Require(algorithm.dual_clip == 0 || algorithm.dual_clip > 1, "dual_clip",
                "0 (off) or above 1");
  rules.Require(algorithm.dual_clip == 0 || HasDualClip(algorithm.loss), "dual_clip",
                "loss: " + ToText(algorithm.loss) + " has no dual clip; set 0, or loss: ppo");
  rules.Require(!MarksTokens(algorithm.loss) || algorithm.advantage != Estimator::kRlZvp, "loss",
                "needs advantages before tokens are run, advantage: rl_zvp has them after; choose "
                "another loss or estimator");
  rules.Require(algorithm.clip_cov.low < algorithm.clip_cov.high, "clip_cov.low",
                "below clip_cov.high");
  rules.Require(
      algorithm.length_norm == 0 || algorithm.aggregation == Aggregation::kSeqMeanTokenSumNorm,
      "length_norm", "is read by aggregation: seq_mean_token_sum_norm alone; set 0");
}

void CheckCorrection(const AlgorithmConfig& algorithm, Rules& rules) {
  const CorrectionConfig& correction = algorithm.correction;
  const bool corrects = correction.mode != CorrectionMode::kNone;
  const bool from_learner = algorithm.old_policy == OldPolicy::kLearner;
  rules.Require(correction.mode != CorrectionMode::kIcePop ||
                    (correction.floor > 0 && correction.floor < correction.cap),
                "correction.floor", "above 0 and below correction.cap");
  rules.Require(!corrects || from_learner, "correction.mode",
                "weighs the learner's old policy against the sampler, and old_policy: sampler "
                "makes them the same; set old_policy: learner, or mode: none");
  rules.Require(
      algorithm.loss != PolicyLoss::kDecoupledPpo || (from_learner && corrects), "loss",
      "is ppo with old_policy: learner and a correction.mode: mis with cap 5 as AReaL has it, "
      "tis, icepop, or is for no bound");
}

void CheckPenalties(const AlgorithmConfig& algorithm, Rules& rules) {
  const bool kl_in_reward = algorithm.kl_in == KlPlace::kReward;
  rules.Require(!kl_in_reward || algorithm.kl_coef > 0, "kl_in", "needs kl_coef above 0");
  rules.Require(!kl_in_reward || algorithm.kl_estimator != KlEstimator::kK3Plus, "kl_estimator",
                "differs from k3 in its gradient only, and kl_in: reward has none; set k3");
  const bool reads_reward = algorithm.advantage != Estimator::kGdpo &&
                            algorithm.advantage != Estimator::kWReinforce &&
                            algorithm.advantage != Estimator::kPassAtK;
  rules.Require(reads_reward || (!kl_in_reward && algorithm.overlong.cache == 0), "advantage",
                "reads reward components or outcomes, not the reward that kl_in: reward and "
                "overlong.cache change; set kl_in: loss and overlong.cache: 0, or another "
                "estimator");
  const AdaptiveEntropyConfig& adaptive = algorithm.adaptive_entropy;
  rules.Require(adaptive.max >= adaptive.min, "adaptive_entropy.max",
                ToText(adaptive.min) + " or more");
  const bool within =
      adaptive.min <= algorithm.entropy_coef && algorithm.entropy_coef <= adaptive.max;
  rules.Require(adaptive.target == 0 || within, "entropy_coef",
                "where adaptive_entropy starts: between its min and max");
}

}  // namespace

void CheckAlgorithm(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.In("run.algorithm.");
  const AvspoLadderConfig& ladder = algorithm.avspo.ladder;
  rules.Between("avspo.ladder.threshold", ladder.threshold, ladder.threshold_min,
                ladder.threshold_max);
  CheckPolicyLoss(algorithm, rules);
  CheckCorrection(algorithm, rules);
  CheckPenalties(algorithm, rules);
}

namespace {

// What the turns of a plan cannot give: their tokens, verdicts and components of their own.
void CheckTurnCredit(const AlgorithmConfig& algorithm, Rules& rules) {
  constexpr Estimator kOfTurns[] = {Estimator::kGrpo, Estimator::kDrGrpo, Estimator::kRloo,
                                    Estimator::kNgrpo, Estimator::kAvspo};
  rules.Require(std::ranges::find(kOfTurns, algorithm.advantage) != std::end(kOfTurns), "advantage",
                "reads lengths, outcomes or components of whole completions, which the turns that "
                "run.env.credit: turn compares do not have; take grpo, dr_grpo, rloo, ngrpo or "
                "avspo, or run.env.credit: episode");
  rules.Require(algorithm.kl_in != KlPlace::kReward, "kl_in",
                "loss: with run.env.credit: turn a penalty on the reward would count the tokens of "
                "earlier turns against later ones");
  rules.Require(
      !MarksTokens(algorithm.loss), "loss",
      "marks tokens by the advantage of their completion; with run.env.credit: turn take another");
}

}  // namespace

void CheckAlgorithmOfRun(const RunSettings& run, Rules& rules) {
  rules.In("run.algorithm.");
  const AlgorithmConfig& algorithm = run.algorithm;
  const bool old = run.batch.max_age > 0 || run.async.old_tokens == OldTokens::kTrain;
  const bool off_policy = old && algorithm.correction.mode == CorrectionMode::kNone;
  rules.Require(algorithm.loss != PolicyLoss::kGpg || !off_policy, "loss",
                "has no ratio, so tokens of older weights bias it; set run.batch.max_age: 0 and "
                "another run.async.old_tokens than train, or old_policy: learner and a "
                "correction.mode");
  rules.Require(algorithm.loss != PolicyLoss::kGpg || !SeveralUpdates(run.batch), "loss",
                "has no ratio, so every update after the first is biased; set run.batch.updates: 1 "
                "and run.batch.epochs: 1, or another loss");
  rules.Require(
      algorithm.advantage != Estimator::kPassAtK || algorithm.pass_at_k.k < run.sampling.group_size,
      "pass_at_k.k",
      "below run.sampling.group_size, which is " + ToText(run.sampling.group_size) +
          "; of that many, a group with a correct completion always holds one");
  rules.Require(algorithm.overlong.cache == 0 || !NamesVerifier(run.reward, "overlong"),
                "overlong.cache",
                "punishes a length that verifier overlong in run.reward punishes already; set 0, "
                "or leave the verifier out");
  const std::int64_t longest = MostBehindPrompt(run);
  const std::int64_t length = algorithm.overlong.length > 0 ? algorithm.overlong.length : longest;
  rules.Require(algorithm.overlong.cache <= length, "overlong.cache",
                "at most the length that it ends at, " + ToText(length));
  rules.Require(length <= longest, "overlong.length",
                std::string("at most run.") + (run.env.on() ? "env" : "sampling") +
                    ".max_tokens: no completion is longer");
  if (run.env.credit == EpisodeCredit::kTurn) CheckTurnCredit(algorithm, rules);
}

}  // namespace buttress
