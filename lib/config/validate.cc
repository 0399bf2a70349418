// Ranges of single settings and rules over several: ValidateRunConfig, and the sections that have
// no file of their own.
#include <string>

#include "lib/config/load.h"
#include "lib/config/rules.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxTopK = 1 << 20;

void CheckRun(const RunSettings& run, Rules& rules) {
  rules.Require(!run.data.prompts.empty(), "run.data.prompts", run.data.prompts,
                "name a JSONL file of prompts");
  rules.Require(!run.model.path.empty(), "run.model.path", run.model.path,
                "name a Hugging Face model folder");
  rules.OneOf("run.model.dtype", run.model.dtype, {"float32", "bfloat16"});
  rules.Require(run.steps >= 1, "run.steps", run.steps, "at least 1");
  rules.Require(run.checkpoint_interval >= 1, "run.checkpoint_interval", run.checkpoint_interval,
                "at least 1");
  rules.Require(run.lease_ms >= 1000, "run.lease_ms", run.lease_ms, "at least 1000");
  rules.Require(run.max_attempts >= 1, "run.max_attempts", run.max_attempts, "at least 1");
  rules.Require(run.data.max_prompt_tokens >= 1 && run.data.max_prompt_tokens <= kMaxTokens,
                "run.data.max_prompt_tokens", run.data.max_prompt_tokens, "between 1 and 1048576");
  const SamplingConfig& sampling = run.sampling;
  rules.Require(sampling.group_size >= 2 && sampling.group_size <= 4096, "run.sampling.group_size",
                sampling.group_size,
                "between 2 and 4096; one completion has no group to compare with");
  rules.Require(sampling.temperature > 0, "run.sampling.temperature", sampling.temperature,
                "above 0");
  rules.Require(sampling.top_p > 0 && sampling.top_p <= 1, "run.sampling.top_p", sampling.top_p,
                "in (0, 1]");
  rules.Require(sampling.top_k >= 0 && sampling.top_k <= kMaxTopK, "run.sampling.top_k",
                sampling.top_k, "0 (off) to 1048576");
  rules.Require(sampling.max_tokens >= 1 && sampling.max_tokens <= kMaxTokens,
                "run.sampling.max_tokens", sampling.max_tokens, "between 1 and 1048576");
  rules.Require(run.batch.prompts >= 1, "run.batch.prompts", run.batch.prompts, "at least 1");
  rules.Require(run.batch.max_age >= 0, "run.batch.max_age", run.batch.max_age,
                "0 (on-policy) or more");
  rules.Require(run.batch.window >= 1, "run.batch.window", run.batch.window, "at least 1");
  rules.Require(!run.deterministic || (run.batch.max_age == 0 && run.batch.window == 1),
                "run.deterministic", run.deterministic,
                "needs run.batch.max_age: 0 and run.batch.window: 1; workers keep only the newest "
                "version, so no older one can be named");
}

void CheckSelection(const SelectionConfig& selection, Rules& rules) {
  const std::string section = "run.data.selection.";
  const auto in_unit = [&](const std::string& key, double value) {
    rules.Require(value >= 0 && value <= 1, section + key, value, "in [0, 1]");
  };
  rules.OneOf(section + "mode", selection.mode, {"none", "greso", "speed", "mopps"});
  in_unit("greso.keep_easy", selection.greso.keep_easy);
  in_unit("greso.keep_hard", selection.greso.keep_hard);
  in_unit("greso.target", selection.greso.target);
  rules.Require(selection.speed.rest >= 1 && selection.speed.rest <= 100, section + "speed.rest",
                selection.speed.rest, "between 1 and 100");
  rules.Require(selection.mopps.candidates >= 1 && selection.mopps.candidates <= 1024,
                section + "mopps.candidates", selection.mopps.candidates, "between 1 and 1024");
  in_unit("mopps.target", selection.mopps.target);
  in_unit("mopps.decay", selection.mopps.decay);
}

void CheckZeroVariance(const RunSettings& run, Rules& rules) {
  const std::string key = "run.batch.zero_variance";
  const std::string& policy = run.batch.zero_variance;
  const std::string& advantage = run.algorithm.advantage;
  rules.OneOf(key, policy, {"keep", "mask", "resample", "virtual"});
  rules.Require(policy != "virtual" || advantage == "avspo", key, policy,
                "needs run.algorithm.advantage: avspo, whose modes say how");
  const bool for_constant = advantage == "avspo" || advantage == "rl_zvp" || advantage == "ngrpo";
  rules.Require((policy != "mask" && policy != "resample") || !for_constant, key, policy,
                "leaves out the groups that run.algorithm.advantage: " + advantage +
                    " is there for; use keep");
  rules.Require(run.batch.resample.cap >= 1 && run.batch.resample.cap <= 1000,
                "run.batch.resample.cap", run.batch.resample.cap, "between 1 and 1000");
  rules.Require(run.batch.resample.budget >= 0, "run.batch.resample.budget",
                run.batch.resample.budget, "0 (no bound) or more");
}

void CheckAlgorithm(const AlgorithmConfig& algorithm, Rules& rules) {
  CheckEstimators(algorithm, rules);
  CheckLoss(algorithm, rules);
}

void CheckOptim(const OptimConfig& optim, Rules& rules) {
  rules.OneOf("run.optim.schedule", optim.schedule, {"constant", "linear", "cosine"});
  rules.Require(optim.lr >= 0, "run.optim.lr", optim.lr, "0 or more");
  rules.Require(optim.beta1 >= 0 && optim.beta1 < 1, "run.optim.beta1", optim.beta1, "in [0, 1)");
  rules.Require(optim.beta2 >= 0 && optim.beta2 < 1, "run.optim.beta2", optim.beta2, "in [0, 1)");
  rules.Require(optim.eps > 0, "run.optim.eps", optim.eps, "above 0");
  rules.Require(optim.warmup_steps >= 0, "run.optim.warmup_steps", optim.warmup_steps, "0 or more");
  rules.Require(optim.clip_grad >= 0, "run.optim.clip_grad", optim.clip_grad, "0 (off) or more");
}

}  // namespace

Status ValidateAlgorithmConfig(const AlgorithmConfig& algorithm) {
  Rules rules;
  CheckAlgorithm(algorithm, rules);
  return rules.Verdict();
}

Status ValidateRewardConfig(const RewardConfig& reward) {
  Rules rules;
  CheckReward(reward, rules);
  return rules.Verdict();
}

Status ValidateRunConfig(const RunConfig& config) {
  Rules rules;
  CheckRun(config.run, rules);
  CheckLossOfRun(config.run, rules);
  CheckSelection(config.run.data.selection, rules);
  CheckZeroVariance(config.run, rules);
  CheckReward(config.run.reward, rules);
  CheckAlgorithm(config.run.algorithm, rules);
  CheckOptim(config.run.optim, rules);
  CheckLocal(config, rules);
  return rules.Verdict();
}

}  // namespace buttress
