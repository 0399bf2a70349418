// ValidateRunConfig, and the rules of the sections that have no file of their own.
#include <limits>
#include <string>

#include "lib/config/load.h"
#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

void CheckUpdates(const RunSettings& run, Rules& rules) {
  const BatchConfig& batch = run.batch;
  const bool of_prompts = batch.mini_batch == MiniBatchOf::kPrompts;
  const std::int64_t most = batch.prompts * (of_prompts ? 1 : run.sampling.group_size);
  rules.AtLeast("batch.updates", batch.updates, 1);
  rules.Require(batch.updates <= most, "batch.updates", batch.updates,
                "at most the " + ToText(most) + " " + ToText(batch.mini_batch) + " of a step");
  rules.Between("batch.epochs", batch.epochs, 1, 1000);
  rules.AtLeast("batch.kl_stop", batch.kl_stop, 0);
  rules.Require(batch.kl_stop == 0 || SeveralUpdates(batch), "batch.kl_stop", batch.kl_stop,
                "leaves out updates after the first, and batch.updates * batch.epochs is 1; set 0");
}

// Completions of a step. With every reward component a plan of so many fits in one response.
constexpr std::int64_t kMaxPlanRows = 131072;

void CheckKept(const RunSettings& run, Rules& rules) {
  rules.AtLeast("checkpoint_interval", run.checkpoint_interval, 1);
  rules.Between("checkpoints.keep_last", run.checkpoints.keep_last, 2, 10000);
  rules.Between("checkpoints.keep_best", run.checkpoints.keep_best, 0, 10000);
  rules.AtLeast("eval.every", run.eval.every, 0);
  rules.Require(run.eval.every == 0 || !run.data.held_out.empty(), "eval.every", run.eval.every,
                "needs run.data.held_out, the prompts to evaluate on; set 0, or name them");
  rules.AtLeast("eval.prompts", run.eval.prompts, 0);
  rules.Between("eval.samples", run.eval.samples, 1, 1024);
  rules.AtLeast("eval.temperature", run.eval.temperature, 0);
  rules.Require(run.eval.samples == 1 || run.eval.temperature > 0, "eval.samples", run.eval.samples,
                "needs run.eval.temperature above 0; greedy completions of a prompt are all equal");
}

Rules CheckRun(const RunSettings& run) {
  Rules rules("run.");
  rules.Require(!run.model.path.empty(), "model.path", run.model.path,
                "name a Hugging Face model folder");
  rules.Between("epochs", run.epochs, 0, 1000000);
  if (run.epochs == 0) rules.AtLeast("steps", run.steps, 1);
  CheckKept(run, rules);
  rules.AtLeast("lease_ms", run.lease_ms, 1000);
  rules.Require(run.lease_limit_ms >= run.lease_ms, "lease_limit_ms", run.lease_limit_ms,
                "lease_ms or more, which is " + std::to_string(run.lease_ms));
  rules.AtLeast("max_attempts", run.max_attempts, 1);
  const SamplingConfig& sampling = run.sampling;
  rules.Require(sampling.group_size >= 2 && sampling.group_size <= 4096, "sampling.group_size",
                sampling.group_size,
                "between 2 and 4096; one completion has no group to compare with");
  rules.Above0("sampling.temperature", sampling.temperature);
  // The log-probs of a truncated distribution are of another policy than the learner's, and tokens
  // that the sampler cannot draw would never lose probability.
  const std::string whole =
      ": the learner trains the whole distribution, and samples of a part of it bias the gradient; "
      "`buttress generate` and `buttress eval` take others";
  rules.Require(sampling.top_p == 1, "sampling.top_p", sampling.top_p, "1 (off)" + whole);
  rules.Require(sampling.top_k == 0, "sampling.top_k", sampling.top_k, "0 (off)" + whole);
  rules.Between("sampling.max_tokens", sampling.max_tokens, 1, kMaxTokens);
  rules.Between("sampling.min_tokens", sampling.min_tokens, 0, sampling.max_tokens);
  for (const std::string& text : sampling.stop) {
    rules.Require(!text.empty(), "sampling.stop", text, "a text of a character or more");
  }
  for (const std::int64_t id : sampling.stop_token_ids) {
    rules.Between("sampling.stop_token_ids", id, 0, std::numeric_limits<std::int32_t>::max());
  }
  rules.Between("batch.prompts", run.batch.prompts, 1,
                kMaxPlanRows / std::max<std::int64_t>(1, sampling.group_size));
  rules.AtLeast("batch.max_age", run.batch.max_age, 0);
  rules.AtLeast("batch.window", run.batch.window, 1);
  CheckUpdates(run, rules);
  rules.Require(!run.deterministic || (run.batch.max_age == 0 && run.batch.window == 1),
                "deterministic", run.deterministic,
                "needs run.batch.max_age: 0 and run.batch.window: 1; workers keep only the newest "
                "version, so no older one can be named");
  return rules;
}

// Equal bits need an engine whose numbers do not depend on what else is in the batch.
Rules CheckDeterministic(const RunConfig& config) {
  Rules rules("run.");
  const WorkerConfig& worker = config.local.worker;
  rules.Require(!config.run.deterministic || worker.engine == EngineKind::kEmbedded,
                "deterministic", config.run.deterministic,
                "needs local.worker.engine: embedded; the numbers of " + ToText(worker.engine) +
                    " depend on what else it runs");
  rules.Require(
      !config.run.deterministic || worker.engine != EngineKind::kEmbedded || worker.batch_invariant,
      "deterministic", config.run.deterministic,
      "needs local.worker.batch_invariant: true; without it a token's log-prob depends "
      "on what else is in the batch");
  return rules;
}

Rules CheckZeroVariance(const RunSettings& run) {
  Rules rules("run.batch.");
  const ZeroVariancePolicy policy = run.batch.zero_variance;
  const Estimator advantage = run.algorithm.advantage;
  rules.Require(policy != ZeroVariancePolicy::kVirtual || advantage == Estimator::kAvspo,
                "zero_variance", policy,
                "needs run.algorithm.advantage: avspo, whose modes make the virtual samples");
  const bool leaves_out =
      policy == ZeroVariancePolicy::kMask || policy == ZeroVariancePolicy::kResample;
  const bool for_constant = advantage == Estimator::kAvspo || advantage == Estimator::kRlZvp ||
                            advantage == Estimator::kNgrpo;
  rules.Require(!leaves_out || !for_constant, "zero_variance", policy,
                "leaves out the groups that run.algorithm.advantage: " + ToText(advantage) +
                    " is there for; use keep");
  rules.Between("resample.cap", run.batch.resample.cap, 1, 1000);
  rules.AtLeast("resample.budget", run.batch.resample.budget, 0);
  return rules;
}

Rules CheckOptim(const RunSettings& run) {
  Rules rules("run.optim.");
  const OptimConfig& optim = run.optim;
  rules.Require(
      optim.precision != OptimPrecision::kStochastic || run.model.dtype == ModelDtype::kBfloat16,
      "precision", optim.precision,
      "rounds bfloat16 parameters; set run.model.dtype: bfloat16, or leave it out");
  rules.AtLeast("lr", optim.lr, 0);
  rules.Require(optim.beta1 >= 0 && optim.beta1 < 1, "beta1", optim.beta1, "in [0, 1)");
  rules.Require(optim.beta2 >= 0 && optim.beta2 < 1, "beta2", optim.beta2, "in [0, 1)");
  rules.Above0("eps", optim.eps);
  rules.AtLeast("warmup_steps", optim.warmup_steps, 0);
  rules.AtLeast("clip_grad", optim.clip_grad, 0);
  return rules;
}

}  // namespace

Status ValidateAlgorithmConfig(const AlgorithmConfig& algorithm) {
  return CheckAlgorithm(algorithm).Verdict();
}

Status ValidateRewardConfig(const RewardConfig& reward) { return CheckReward(reward).Verdict(); }

Status ValidateRunConfig(const RunConfig& config) {
  Rules rules;
  for (const Rules& part : {CheckRun(config.run), CheckAlgorithmOfRun(config.run),
                            CheckData(config.run), CheckZeroVariance(config.run),
                            CheckReward(config.run.reward), CheckAlgorithm(config.run.algorithm),
                            CheckOptim(config.run), CheckDeterministic(config), CheckLocal(config)})
    rules.Add(part);
  return rules.Verdict();
}

}  // namespace buttress
