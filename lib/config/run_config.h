// Every setting of every program: name, default, meaning, range (limits.h). `run` is equal on every
// process and is hashed; `local` (local_config.h) may differ from machine to machine. A secret is a
// file that a setting names, never the value of a setting. A component receives the section that it
// reads by const&.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lib/config/limits.h"
#include "lib/config/sections/async_config.h"
#include "lib/config/sections/data_config.h"
#include "lib/config/sections/draw_control_config.h"
#include "lib/config/sections/env_config.h"
#include "lib/config/sections/estimator_config.h"
#include "lib/config/sections/local_config.h"
#include "lib/config/sections/lora_config.h"
#include "lib/config/sections/loss_config.h"
#include "lib/config/sections/reward_config.h"
#include "lib/config/sections/watch_config.h"

namespace buttress {

// Number format of parameters and activations. OptimPrecision is that of the optimizer.
enum class ModelDtype : std::uint8_t { kFloat32, kBfloat16 };

template <>
inline constexpr ChoiceRow<ModelDtype> kChoices<ModelDtype>[] = {
    {ModelDtype::kFloat32, "float32"},
    {ModelDtype::kBfloat16, "bfloat16"},
};

// Learning rate after the warm-up.
enum class LrSchedule : std::uint8_t { kConstant, kLinear, kCosine };

template <>
inline constexpr ChoiceRow<LrSchedule> kChoices<LrSchedule>[] = {
    {LrSchedule::kConstant, "constant"},
    {LrSchedule::kLinear, "linear"},
    {LrSchedule::kCosine, "cosine"},
};

// What AdamW keeps besides bfloat16 parameters.
enum class OptimPrecision : std::uint8_t { kFp32Master, kStochastic };

template <>
inline constexpr ChoiceRow<OptimPrecision> kChoices<OptimPrecision>[] = {
    {OptimPrecision::kFp32Master, "fp32_master",
     "float32 master weights and moments; 18 bytes a parameter"},
    {OptimPrecision::kStochastic, "stochastic",
     "bfloat16 moments, stochastic rounding; 10 bytes a parameter"},
};

// What AdamW does in a step whose gradient is exactly 0.
enum class ZeroGradient : std::uint8_t { kSkip, kUpdate };

template <>
inline constexpr ChoiceRow<ZeroGradient> kChoices<ZeroGradient>[] = {
    {ZeroGradient::kSkip, "skip", "weights and optimizer stay as they are"},
    {ZeroGradient::kUpdate, "update", "as in every step; momentum and decay move the weights"},
};

// What a mini-batch is made of.
enum class MiniBatchOf : std::uint8_t { kPrompts, kCompletions };

template <>
inline constexpr ChoiceRow<MiniBatchOf> kChoices<MiniBatchOf>[] = {
    {MiniBatchOf::kPrompts, "prompts", "with their whole groups"},
    {MiniBatchOf::kCompletions, "completions"},
};

struct ModelPathConfig {
  std::string path;
  ModelDtype dtype = ModelDtype::kFloat32;

  void Visit(auto& v) {
    v("path", path, "Hugging Face folder to start from: config.json, tokenizer.json, safetensors");
    v("dtype", dtype, "parameters and activations; run.optim.precision is that of the optimizer");
  }
};

struct SamplingConfig {
  std::int64_t group_size = 8;
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  std::int64_t max_tokens = 256;
  std::int64_t min_tokens = 0;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::vector<std::int64_t> stop_token_ids;

  void Visit(auto& v) {
    v("group_size", group_size, "completions of a prompt (G)",
      Between(2, 4096, "; one completion has no group to compare with"));
    v("temperature", temperature, "sampling temperature, above 0", kAbove0);
    v("top_p", top_p, "nucleus mass, 1 = off; off is what policy gradients assume");
    v("top_k", top_k, "highest-probability tokens kept, 0 = off");
    v("max_tokens", max_tokens, "tokens of a completion at most", Between(1, kMaxTokens));
    v("min_tokens", min_tokens,
      "tokens before which nothing ends a completion, 0 = off; off is what policy gradients "
      "assume");
    v("stop", stop,
      "texts that end a completion at the token that completes them; special tokens such as "
      "<|im_end|> too");
    v("include_stop", include_stop,
      "whether the verifier sees the text of stop, as one of </answer> needs to; it never sees a "
      "special token");
    v("stop_token_ids", stop_token_ids,
      "tokens that end a completion besides the eos tokens of config.json and "
      "generation_config.json; the verifier does not see them",
      Between(0, std::numeric_limits<std::int32_t>::max()));
  }
};

struct BatchConfig {
  std::int64_t prompts = 32;
  std::int64_t max_age = 1;
  std::int64_t window = 1;
  std::int64_t updates = 1;
  std::int64_t epochs = 1;
  MiniBatchOf mini_batch = MiniBatchOf::kPrompts;
  double kl_stop = 0.0;
  ZeroVariancePolicy zero_variance = ZeroVariancePolicy::kKeep;
  StepDenominator denominator = StepDenominator::kDrawn;
  ResampleConfig resample;

  void Visit(auto& v) {
    v("prompts", prompts, "groups of a step (P)");
    v("max_age", max_age,
      "age in steps that a group may have when it is trained (S); 0 = on-policy", AtLeast(0));
    v("window", window,
      "younger groups that may pass a slower one (look-ahead W); 1 = first in, first out",
      AtLeast(1));
    v("updates", updates,
      "mini-batches that a step is cut into at random; each makes one optimizer update, with its "
      "own denominators in the loss",
      AtLeast(1));
    v("epochs", epochs, "times that the step goes through its mini-batches, in the same order",
      Between(1, 1000));
    v("mini_batch", mini_batch, "what is dealt out to the mini-batches");
    v("kl_stop", kl_stop,
      "nats per token, mean k3 of the ratio's old policy to the policy, above which an update and "
      "those after it are left out of the step; never the first; 0 = off",
      AtLeast(0));
    v("zero_variance", zero_variance, "groups whose rewards are all equal");
    v("denominator", denominator,
      "zero_variance: mask, resample: the completions that the loss of a step is divided by");
    v("resample", resample, "zero_variance: resample");
  }
};

// Whether the policy changes within a step.
inline bool SeveralUpdates(const BatchConfig& batch) { return batch.updates * batch.epochs > 1; }

struct AlgorithmConfig {
  Estimator advantage = Estimator::kGrpo;
  StdKind std = StdKind::kSample;
  double eps = 1e-6;
  AvspoConfig avspo;
  AGraeConfig a_grae;
  GpgConfig gpg;
  PassAtKConfig pass_at_k;
  GdpoConfig gdpo;
  NgrpoConfig ngrpo;
  RlZvpConfig rl_zvp;
  WReinforceConfig w_reinforce;
  PolicyLoss loss = PolicyLoss::kPpo;
  OldPolicy old_policy = OldPolicy::kSampler;
  CorrectionConfig correction;
  SapoConfig sapo;
  DppoConfig dppo;
  ClipCovConfig clip_cov;
  KlCovConfig kl_cov;
  double clip_low = 0.2;
  double clip_high = 0.2;
  double dual_clip = 0.0;
  Aggregation aggregation = Aggregation::kTokenMean;
  double length_norm = 0.0;
  double kl_coef = 0.0;
  KlEstimator kl_estimator = KlEstimator::kK3;
  KlPlace kl_in = KlPlace::kLoss;
  double entropy_coef = 0.0;
  AdaptiveEntropyConfig adaptive_entropy;
  OverlongConfig overlong;

  void Visit(auto& v) {
    v("advantage", advantage,
      "estimator; `buttress advantages --estimator list` prints their formulas");
    v("std", std, "standard deviation that the group's advantages are divided by");
    v("eps", eps, "added to that standard deviation", AtLeast(0));
    v("avspo", avspo, "virtual samples (advantage: avspo)");
    v("a_grae", a_grae, "difficulty and sign (advantage: a_grae)");
    v("gpg", gpg, "share of useful groups (advantage: gpg)");
    v("pass_at_k", pass_at_k, "the best of k completions (advantage: pass_at_k)");
    v("gdpo", gdpo, "several reward components (advantage: gdpo)");
    v("ngrpo", ngrpo, "one virtual best sample (advantage: ngrpo)");
    v("rl_zvp", rl_zvp, "token entropy in constant groups (advantage: rl_zvp)");
    v("w_reinforce", w_reinforce, "correct against wrong (advantage: w_reinforce)");
    v("loss", loss, "policy loss; `buttress losses` prints their formulas");
    v("old_policy", old_policy, "whose log-probs the ratio divides by");
    v("correction", correction, "weights for the gap between sampler and learner");
    v("sapo", sapo, "soft gate (loss: sapo)");
    v("dppo", dppo, "divergence instead of ratio clip (loss: dppo_tv, dppo_kl)");
    v("clip_cov", clip_cov, "tokens of high covariance left out (loss: clip_cov)");
    v("kl_cov", kl_cov, "tokens of high covariance held back (loss: kl_cov)");
    v("clip_low", clip_low,
      "ratio clip below: 1 - clip_low; gmpo: of the log ratio, dppo: of the divergence",
      MayChange(kShare));
    v("clip_high", clip_high,
      "ratio clip above: 1 + clip_high; gmpo: of the log ratio, dppo: of the divergence",
      MayChange(kAbove0));
    v("dual_clip", dual_clip, "bound of the loss for negative advantages (c > 1); 0 = off",
      MayChange());
    v("aggregation", aggregation, "how the losses of tokens become the loss of a step");
    v("length_norm", length_norm, "constant of seq_mean_token_sum_norm; 0 = sampling.max_tokens",
      AtLeast(0));
    v("kl_coef", kl_coef,
      "weight of the KL loss against the start model; 0 = off, no reference model is kept",
      AtLeast(0));
    v("kl_estimator", kl_estimator, "estimator of that KL");
    v("kl_in", kl_in, "where the KL term goes");
    v("entropy_coef", entropy_coef, "weight of the entropy bonus; 0 = off", MayChange(AtLeast(0)));
    v("adaptive_entropy", adaptive_entropy, "entropy_coef that follows the entropy");
    v("overlong", overlong, "completions at or near the token limit");
  }
};

struct OptimConfig {
  OptimPrecision precision = OptimPrecision::kFp32Master;
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  std::int64_t warmup_steps = 0;
  LrSchedule schedule = LrSchedule::kConstant;
  double min_lr_ratio = 0.1;
  double clip_grad = 1.0;
  ZeroGradient zero_gradient = ZeroGradient::kSkip;

  void Visit(auto& v) {
    v("precision", precision,
      "what AdamW keeps besides bfloat16 parameters (run.model.dtype), and the memory of "
      "parameters, float32 gradients and optimizer; with float32 parameters everything is "
      "float32, 16 bytes a parameter");
    v("lr", lr, "peak learning rate of AdamW", MayChange(AtLeast(0)));
    v("beta1", beta1, "decay of the first moment", kDecay);
    v("beta2", beta2, "decay of the second moment", kDecay);
    v("eps", eps, "added to the root of the second moment", kAbove0);
    v("weight_decay", weight_decay, "decoupled weight decay, on matrices only", MayChange());
    v("warmup_steps", warmup_steps, "steps of linear warm-up, update by update",
      MayChange(AtLeast(0)));
    v("schedule", schedule, "learning rate after the warm-up", MayChange());
    v("min_lr_ratio", min_lr_ratio, "last learning rate over the peak, for linear and cosine",
      MayChange());
    v("clip_grad", clip_grad, "bound of the global gradient norm; 0 = off", MayChange(AtLeast(0)));
    v("zero_gradient", zero_gradient,
      "a step whose gradient is exactly 0, because no group of its batch has a signal");
  }
};

struct RunSettings {
  std::string name = "run";
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  std::int64_t epochs = 0;
  bool deterministic = false;
  std::int64_t checkpoint_interval = 5;
  CheckpointsConfig checkpoints;
  EvalConfig eval;
  std::int64_t lease_ms = 30000;
  std::int64_t lease_limit_ms = 3600000;
  std::int64_t max_attempts = 5;
  DataConfig data;
  ModelPathConfig model;
  LoraConfig lora;
  SamplingConfig sampling;
  EnvConfig env;
  BatchConfig batch;
  AsyncConfig async;
  RewardConfig reward;
  AlgorithmConfig algorithm;
  DrawControlConfig control;
  OptimConfig optim;

  void Visit(auto& v) {
    v("name", name, "name of the run");
    v("seed", seed, "seed of everything random");
    v("steps", steps,
      "training steps; each makes batch.updates * batch.epochs optimizer updates and one version",
      MayChange());
    v("epochs", epochs, "length of the run in passes over its prompts, instead of steps; 0 = off",
      MayChange(Between(0, 1000000)));
    v("deterministic", deterministic,
      "batches in admission order with exact versions, so that a run can be repeated bit for bit");
    v("checkpoint_interval", checkpoint_interval, "steps between checkpoints",
      MayChange(AtLeast(1)));
    v("checkpoints", checkpoints, "which checkpoints are kept");
    v("eval", eval, "held-out accuracy during the run");
    v("lease_ms", lease_ms,
      "time after which a lease that is not renewed expires and its group is leased again",
      MayChange(AtLeast(1000)));
    v("lease_limit_ms", lease_limit_ms,
      "time after which a lease ends although its worker renews it; longer than any group takes",
      MayChange());
    v("max_attempts", max_attempts, "failures of one group before it is dropped",
      MayChange(AtLeast(1)));
    v("data", data, "prompts");
    v("model", model, "the policy");
    v("lora", lora, "low-rank adapters, which are trained instead of the model");
    v("sampling", sampling, "how completions are drawn");
    v("env", env, "episodes: several turns, tools, agents");
    v("batch", batch, "what makes a step");
    v("async", async, "completions while the weights change");
    v("reward", reward, "how completions are scored");
    v("algorithm", algorithm, "advantages and loss");
    v("control", control, "closed loop on collapse (batch.zero_variance: resample)");
    v("optim", optim, "optimizer");
  }
};

struct RunConfig {
  RunSettings run;
  LocalSettings local;

  void Visit(auto& v) {
    v("run", run, "equal on every process; hashed, compared at registration");
    v("local", local, "may differ from process to process");
  }
};

}  // namespace buttress
