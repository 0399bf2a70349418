// ValidateRunConfig, and the rules of run but for run.algorithm.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "lib/config/load.h"
#include "lib/config/reward_text.h"
#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

void CheckUpdates(const RunSettings& run, Rules& rules) {
  const BatchConfig& batch = run.batch;
  const bool of_prompts = batch.mini_batch == MiniBatchOf::kPrompts;
  const std::int64_t most = batch.prompts * (of_prompts ? 1 : run.sampling.group_size);
  rules.Require(batch.updates <= most, "batch.updates",
                "at most the " + ToText(most) + " " + ToText(batch.mini_batch) + " of a step");
  rules.Require(batch.kl_stop == 0 || SeveralUpdates(batch), "batch.kl_stop",
                "leaves out updates after the first, and batch.updates * batch.epochs is 1; set 0");
}

// Completions of a step. With every reward component a plan of so many fits in one response.
constexpr std::int64_t kMaxPlanRows = 131072;

void CheckKept(const RunSettings& run, Rules& rules) {
  rules.Require(run.eval.every == 0 || !run.data.held_out.empty(), "eval.every",
                "needs run.data.held_out, the prompts to evaluate on; set 0, or name them");
  rules.Require(run.eval.samples == 1 || run.eval.temperature > 0, "eval.samples",
                "needs run.eval.temperature above 0; greedy completions of a prompt are all equal");
}

void CheckLora(const LoraConfig& lora, Rules& rules) {
  const std::vector<LoraTarget>& targets = lora.targets;
  const bool all = std::ranges::count(targets, LoraTarget::kAll) > 0;
  rules.Require(!targets.empty(), "lora.targets",
                "name a matrix or more, such as [q_proj, v_proj], or [all]");
  rules.Require(!all || targets.size() == 1, "lora.targets",
                "'all' names every matrix; take it or the others out");
  rules.Require(lora.adapter.empty() || lora.on(), "lora.adapter",
                "needs run.lora.rank above 0: the rank of the adapter (r of adapter_config.json)");
  for (const LoraTarget target : targets) {
    rules.RequireOf(std::ranges::count(targets, target) == 1, "lora.targets", ToText(target),
                    "appears twice; name each matrix once");
  }
}

void CheckRun(const RunSettings& run, Rules& rules) {
  rules.In("run.");
  rules.Require(!run.model.path.empty(), "model.path", "name a Hugging Face model folder");
  rules.Require(run.epochs != 0 || run.steps >= 1, "steps", "1 or more");
  CheckKept(run, rules);
  CheckLora(run.lora, rules);
  rules.Require(run.lease_limit_ms >= run.lease_ms, "lease_limit_ms",
                "lease_ms or more, which is " + std::to_string(run.lease_ms));
  const SamplingConfig& sampling = run.sampling;
  // The log-probs of a truncated or masked distribution are of another policy than the learner's,
  // and tokens that the sampler cannot draw would never lose probability.
  const std::string whole =
      ": the learner trains the whole distribution, and samples of a part of it bias the gradient; "
      "`buttress generate` and `buttress eval` take others";
  rules.Require(sampling.top_p == 1, "sampling.top_p", "1 (off)" + whole);
  rules.Require(sampling.top_k == 0, "sampling.top_k", "0 (off)" + whole);
  rules.Require(sampling.min_tokens == 0, "sampling.min_tokens",
                "0 (off): the sampler would mask the stop tokens and the learner does not, which "
                "biases every ratio; reward length instead (run.reward), and use min_tokens in "
                "`buttress generate`");
  for (const std::string& text : sampling.stop) {
    rules.RequireOf(!text.empty(), "sampling.stop", text, "a text of a character or more");
  }
  // Conversations of agents may branch at every turn.
  const bool branches = run.env.kind == EnvKind::kExec || run.env.kind == EnvKind::kHttp;
  const std::int64_t rows = sampling.group_size * (branches ? run.env.max_turns : 1);
  rules.Between("batch.prompts", run.batch.prompts, 1,
                kMaxPlanRows / std::max<std::int64_t>(1, rows));
  CheckUpdates(run, rules);
  rules.Require(run.optim.precision != OptimPrecision::kStochastic ||
                    run.model.dtype == ModelDtype::kBfloat16,
                "optim.precision",
                "rounds bfloat16 parameters; set run.model.dtype: bfloat16, or leave it out");
  rules.Require(!run.deterministic || (run.batch.max_age == 0 && run.batch.window == 1),
                "deterministic",
                "needs run.batch.max_age: 0 and run.batch.window: 1; workers keep only the newest "
                "version, so no older one can be named");
  rules.Require(!run.deterministic || run.async.old_tokens == OldTokens::kDrop, "async.old_tokens",
                "is for groups of several versions, and run.deterministic names one; leave it out");
}

// Equal bits need an engine whose numbers do not depend on what else is in the batch.
void CheckDeterministic(const RunConfig& config, Rules& rules) {
  rules.In("run.");
  const WorkerConfig& worker = config.local.worker;
  rules.Require(!config.run.deterministic || worker.engine == EngineKind::kEmbedded,
                "deterministic",
                "needs local.worker.engine: embedded; the numbers of " + ToText(worker.engine) +
                    " depend on what else it runs");
  rules.Require(!config.run.deterministic || worker.device == ComputeDevice::kCpu, "deterministic",
                "needs local.worker.device: cpu; on a GPU the bits of a log-prob depend on what "
                "else is in the batch");
}

void CheckZeroVariance(const RunSettings& run, Rules& rules) {
  rules.In("run.batch.");
  const ZeroVariancePolicy policy = run.batch.zero_variance;
  const Estimator advantage = run.algorithm.advantage;
  rules.Require(policy != ZeroVariancePolicy::kVirtual || advantage == Estimator::kAvspo,
                "zero_variance",
                "needs run.algorithm.advantage: avspo, whose modes make the virtual samples");
  const bool leaves_out =
      policy == ZeroVariancePolicy::kMask || policy == ZeroVariancePolicy::kResample;
  const bool for_constant = advantage == Estimator::kAvspo || advantage == Estimator::kRlZvp ||
                            advantage == Estimator::kNgrpo;
  rules.Require(!leaves_out || !for_constant, "zero_variance",
                "leaves out the groups that run.algorithm.advantage: " + ToText(advantage) +
                    " is there for; use keep");
  rules.In("run.control.");
  rules.Require(!run.control.on() || policy == ZeroVariancePolicy::kResample, "mixed",
                "decides how many groups are replaced: set run.batch.zero_variance: resample, or 0 "
                "(off)");
  rules.Require(run.control.tokens == 0 || run.control.on(), "tokens",
                "is read with run.control.mixed above 0 alone; set that, or 0 (no bound)");
}

// A name is a part of keys, prompt ids and metrics.
bool IsSourceName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

void CheckSource(const SourceConfig& source, const RunSettings& run, Rules& rules) {
  rules.Require(!source.prompts.empty(), "prompts", "name a file or folder of prompts");
  if (source.max_prompt_tokens) {
    rules.Between("max_prompt_tokens", *source.max_prompt_tokens, 1, run.data.max_prompt_tokens);
  }
  if (source.max_tokens) {
    rules.Between("max_tokens", *source.max_tokens, 1, run.sampling.max_tokens);
  }
}

void CheckData(const RunSettings& run, Rules& rules) {
  const DataConfig& data = run.data;
  rules.In("run.data.");
  rules.Require(!data.prompts.empty() || !data.sources.empty(), "prompts",
                "name a file or folder of prompts, or several in run.data.sources");
  rules.Require(data.prompts.empty() || data.sources.empty(), "prompts",
                "run.data.sources names datasets as well; move this one there, or remove them");
  for (const auto& [name, source] : data.sources) {
    rules.RequireOf(IsSourceName(name), "sources", name,
                    "a name of letters, digits, _ and -, 64 at most");
  }
  rules.Require(!data.selection.unbiased || data.selection.mode == SelectionMode::kGreso,
                "selection.unbiased",
                "needs run.data.selection.mode: greso; a prompt that speed lets rest cannot be "
                "drawn at all, and the probability of mopps's choice is not known, so that no "
                "weight makes up for what they pass over");
  rules.Require(!data.selection.unbiased || run.batch.denominator == StepDenominator::kDrawn,
                "selection.unbiased",
                "needs run.batch.denominator: drawn; with kept the length of a step depends on "
                "its own rewards");
  for (const auto& [name, source] : data.sources) {
    rules.In("run.data.sources." + name + ".");
    CheckSource(source, run, rules);
  }
}

void CheckVerifiers(const RewardConfig& reward, Rules& rules) {
  const auto check = [&](const std::string& key, const std::string& text) {
    const Status status = CheckRewardText(text);
    rules.RequireOf(status.ok(), key, text, status.message());
  };
  check("verifier", reward.verifier);
  for (const auto& [source, text] : reward.by_source) check("by_source." + source, text);
  const SecondVerifierConfig& second = reward.second;
  if (!second.verifier.empty()) check("second.verifier", second.verifier);
  rules.Require(second.share == 0 || !second.verifier.empty(), "second.verifier",
                "name a verifier, or leave share at 0");
}

void CheckMath(const MathConfig& math, Rules& rules) {
  rules.Require(!math.anchors.empty(), "math.anchors", "name one or more");
  for (const std::string& anchor : math.anchors) {
    const bool known = std::ranges::find(kMathAnchors, anchor) != std::end(kMathAnchors);
    rules.RequireOf(known, "math.anchors", anchor,
                    "is unknown" + SuggestNames(anchor, kMathAnchors));
  }
}

// A limit that another limit always precedes is a mistake.
void CheckCodeTimes(const RewardConfig& reward, Rules& rules) {
  if (!NamesVerifier(reward, "code")) return;
  const CodeConfig& code = reward.code;
  rules.Require(code.cpu_seconds * 1000 <= code.wall_ms, "code.cpu_seconds",
                "at most code.wall_ms, which is " + std::to_string(code.wall_ms) +
                    "; a process cannot use more CPU time than that");
  rules.Require(code.wall_ms <= reward.timeout_ms, "code.wall_ms",
                "at most timeout_ms, which is " + std::to_string(reward.timeout_ms) +
                    " for all tests of a completion");
}

void CheckReward(const RewardConfig& reward, Rules& rules) {
  rules.In("run.reward.");
  CheckVerifiers(reward, rules);
  CheckMath(reward.math, rules);
  rules.Require(!reward.format.tags.empty(), "format.tags", "name a tag or more: [think, answer]");
  rules.Between("length.min", reward.length.min, 0, reward.length.max);
  rules.Between("length.overlong_buffer", reward.length.overlong_buffer, 0,
                reward.length.overlong_tokens);
  CheckCodeTimes(reward, rules);
}

}  // namespace

bool NamesVerifier(const RewardConfig& reward, std::string_view name) {
  const auto names = [name](const std::string& text) {
    const Result<std::vector<SumTerm>> terms = ParseSum(text);
    return terms.ok() && std::ranges::find(*terms, name, &SumTerm::name) != terms->end();
  };
  return names(reward.verifier) || std::ranges::any_of(reward.by_source, [&](const auto& entry) {
           return names(entry.second);
         });
}

Status ValidateAlgorithmConfig(const AlgorithmConfig& algorithm) {
  RunConfig config;
  config.run.algorithm = algorithm;
  Rules rules(config);
  rules.CheckLimits("run.algorithm.");
  CheckAlgorithm(algorithm, rules);
  return rules.Verdict();
}

Status ValidateRewardConfig(const RewardConfig& reward) {
  RunConfig config;
  config.run.reward = reward;
  Rules rules(config);
  rules.CheckLimits("run.reward.");
  CheckReward(reward, rules);
  return rules.Verdict();
}

Status ValidateRunConfig(const RunConfig& config) {
  Rules rules(config);
  rules.CheckLimits();
  CheckRun(config.run, rules);
  CheckAlgorithmOfRun(config.run, rules);
  CheckData(config.run, rules);
  CheckZeroVariance(config.run, rules);
  CheckEnv(config.run, rules);
  CheckReward(config.run.reward, rules);
  CheckAlgorithm(config.run.algorithm, rules);
  CheckDeterministic(config, rules);
  CheckLocal(config, rules);
  return rules.Verdict();
}

}  // namespace buttress
