// The policy losses and what belongs to them: importance corrections, KL estimators, aggregations,
// and the sections of run.algorithm that they read. lib/rl/loss/loss_table.cc has the formula and
// source of each.
#pragma once

#include <cstdint>
#include <string>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

enum class PolicyLoss : std::uint8_t {
  kPpo,
  kDecoupledPpo,
  kGspo,
  kGspoToken,
  kCispo,
  kGmpo,
  kSapo,
  kGpg,
  kDppoTv,
  kDppoKl,
  kClipCov,
  kKlCov,
};

template <>
inline constexpr ChoiceRow<PolicyLoss> kChoices<PolicyLoss>[] = {
    {PolicyLoss::kPpo, "ppo"},          {PolicyLoss::kDecoupledPpo, "decoupled_ppo"},
    {PolicyLoss::kGspo, "gspo"},        {PolicyLoss::kGspoToken, "gspo_token"},
    {PolicyLoss::kCispo, "cispo"},      {PolicyLoss::kGmpo, "gmpo"},
    {PolicyLoss::kSapo, "sapo"},        {PolicyLoss::kGpg, "gpg"},
    {PolicyLoss::kDppoTv, "dppo_tv"},   {PolicyLoss::kDppoKl, "dppo_kl"},
    {PolicyLoss::kClipCov, "clip_cov"}, {PolicyLoss::kKlCov, "kl_cov"},
};

// Whether algorithm.dual_clip bounds the loss.
constexpr bool HasDualClip(PolicyLoss loss) {
  return loss == PolicyLoss::kPpo || loss == PolicyLoss::kDecoupledPpo;
}

// Whether the loss treats tokens differently that the covariances of the whole step mark.
constexpr bool MarksTokens(PolicyLoss loss) {
  return loss == PolicyLoss::kClipCov || loss == PolicyLoss::kKlCov;
}

// Whose log-probs the ratio divides by.
enum class OldPolicy : std::uint8_t { kSampler, kLearner };

template <>
inline constexpr ChoiceRow<OldPolicy> kChoices<OldPolicy>[] = {
    {OldPolicy::kSampler, "sampler", "recorded"},
    {OldPolicy::kLearner, "learner", "its own, as the step begins"},
};

enum class CorrectionMode : std::uint8_t { kNone, kIs, kTis, kMis, kIcePop };

template <>
inline constexpr ChoiceRow<CorrectionMode> kChoices<CorrectionMode>[] = {
    {CorrectionMode::kNone, "none"},
    {CorrectionMode::kIs, "is", "w"},
    {CorrectionMode::kTis, "tis", "min(w, cap)"},
    {CorrectionMode::kMis, "mis", "w, 0 above cap"},
    {CorrectionMode::kIcePop, "icepop", "w, 0 outside floor and cap"},
};

enum class CorrectionLevel : std::uint8_t { kToken, kSequence, kGeometric };

template <>
inline constexpr ChoiceRow<CorrectionLevel> kChoices<CorrectionLevel>[] = {
    {CorrectionLevel::kToken, "token"},
    {CorrectionLevel::kSequence, "sequence", "product over the completion"},
    {CorrectionLevel::kGeometric, "geometric", "T-th root of the product"},
};

enum class KlEstimator : std::uint8_t { kK1, kK2, kK3, kK3Plus };

template <>
inline constexpr ChoiceRow<KlEstimator> kChoices<KlEstimator>[] = {
    {KlEstimator::kK1, "k1"},
    {KlEstimator::kK2, "k2"},
    {KlEstimator::kK3, "k3"},
    {KlEstimator::kK3Plus, "k3+", "k3's value, k2's gradient"},
};

// Where the KL term against the start model goes.
enum class KlPlace : std::uint8_t { kLoss, kReward };

template <>
inline constexpr ChoiceRow<KlPlace> kChoices<KlPlace>[] = {
    {KlPlace::kLoss, "loss"},
    {KlPlace::kReward, "reward",
     "taken off the reward; a trap: no group is homogeneous any more, and std: sample scales KL "
     "noise to variance 1"},
};

// How the losses of tokens become the loss of a step (lib/rl/loss/aggregation.h).
enum class Aggregation : std::uint8_t {
  kTokenMean,
  kTokenSum,
  kGroupTokenMean,
  kSeqMeanTokenMean,
  kSeqMeanTokenSum,
  kSeqMeanTokenSumNorm,
};

template <>
inline constexpr ChoiceRow<Aggregation> kChoices<Aggregation>[] = {
    {Aggregation::kTokenMean, "token_mean"},
    {Aggregation::kTokenSum, "token_sum"},
    {Aggregation::kGroupTokenMean, "group_token_mean"},
    {Aggregation::kSeqMeanTokenMean, "seq_mean_token_mean"},
    {Aggregation::kSeqMeanTokenSum, "seq_mean_token_sum"},
    {Aggregation::kSeqMeanTokenSumNorm, "seq_mean_token_sum_norm"},
};

// Weights for the gap between the policy that sampled and the old policy of the ratio.
struct CorrectionConfig {
  CorrectionMode mode = CorrectionMode::kNone;
  CorrectionLevel level = CorrectionLevel::kToken;
  double cap = 2.0;
  double floor = 0.5;

  void Visit(auto& v) {
    v("mode", mode, "needs old_policy: learner; with w = old policy / sampling policy");
    v("level", level, "what w is taken of");
    v("cap", cap, "upper bound of w", kAbove0);
    v("floor", floor, "icepop: lower bound of w");
  }
};

// Completions that are cut at the token limit or come near it (DAPO, arXiv 2503.14476, section
// 3.4).
struct OverlongConfig {
  bool filter = false;
  std::int64_t length = 0;
  std::int64_t cache = 0;
  double penalty = 1.0;

  void Visit(auto& v) {
    v("filter", filter,
      "leave completions that were cut at the token limit out of the loss and its denominators");
    v("length", length, "tokens from which the soft punishment is full; 0 = sampling.max_tokens",
      AtLeast(0));
    v("cache", cache, "tokens before `length` over which it grows; 0 = no soft punishment",
      AtLeast(0));
    v("penalty", penalty,
      "full punishment, subtracted from the reward; the raw reward, and so ACR, stays", AtLeast(0));
  }
};

// The entropy coefficient as a controller of the policy's entropy (Skywork-OR1, arXiv 2505.22312).
struct AdaptiveEntropyConfig {
  double target = 0.0;
  double step = 0.005;
  double min = 0.0;
  double max = 1.0;

  void Visit(auto& v) {
    v("target", target,
      "nats per token below which the bonus acts; 0 = off: entropy_coef stays as it is",
      AtLeast(0));
    v("step", step, "change of the coefficient after a step: up at or below target, down above",
      kAbove0);
    v("min", min, "lower bound of the coefficient", AtLeast(0));
    v("max", max, "upper bound of the coefficient", kFinite);
  }
};

struct SapoConfig {
  double tau_positive = 1.0;
  double tau_negative = 1.05;

  void Visit(auto& v) {
    v("tau_positive", tau_positive, "temperature of the gate where the advantage is above 0",
      kAbove0);
    v("tau_negative", tau_negative, "temperature of the gate elsewhere", kAbove0);
  }
};

struct DppoConfig {
  double cap = 20.0;

  void Visit(auto& v) {
    v("cap", cap, "upper bound of the ratio that weights a token", AtLeast(1));
  }
};

struct ClipCovConfig {
  double share = 0.0002;
  double low = 1.0;
  double high = 5.0;

  void Visit(auto& v) {
    v("share", share, "tokens left out, of all tokens of the step", kShare);
    v("low", low, "only tokens whose covariance is above this");
    v("high", high, "and below this");
  }
};

struct KlCovConfig {
  double share = 0.0002;
  double coef = 0.1;

  void Visit(auto& v) {
    v("share", share,
      "tokens with a penalty, of all tokens of the step: those with the highest covariance",
      kShare);
    v("coef", coef, "weight of the penalty |log ratio|", AtLeast(0));
  }
};

}  // namespace buttress
