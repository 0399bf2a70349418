// Ranges of single settings and rules over several: ValidateRunConfig.
#include <algorithm>
#include <cmath>
#include <string>

#include "lib/config/load.h"
#include "lib/config/rules.h"

namespace buttress {
namespace {

// Of a prompt or completion; lib/rl/wire.h refuses longer ones.
constexpr std::int64_t kMaxTokens = 1 << 20;
constexpr std::int64_t kMaxTopK = 1 << 20;

void CheckVerifierSettings(const RewardConfig& reward, Rules& rules) {
  rules.OneOf("run.reward.math.mode", reward.math.mode, {"lenient", "strict"});
  rules.Require(!reward.math.anchors.empty(), "run.reward.math.anchors", std::string("[]"), "at least one");
  for (const std::string& anchor : reward.math.anchors) {
    const bool known = std::find(std::begin(kMathAnchors), std::end(kMathAnchors), anchor) != std::end(kMathAnchors);
    rules.Require(known, "run.reward.math.anchors", anchor, "choose of: boxed, final answer is, ####, answer:, whole, last expression");
  }
  const double share = reward.second.share;
  rules.Require(share >= 0 && share <= 1, "run.reward.second.share", share, "in [0, 1]");
  rules.Require(share == 0 || !reward.second.verifier.empty(), "run.reward.second.verifier", std::string(), "name a verifier, or leave share at 0");
}

void CheckRun(const RunSettings& run, Rules& rules) {
  rules.Require(!run.data.prompts.empty(), "run.data.prompts", run.data.prompts, "name a JSONL file of prompts");
  rules.Require(!run.model.path.empty(), "run.model.path", run.model.path, "name a Hugging Face model folder");
  rules.OneOf("run.model.dtype", run.model.dtype, {"float32", "bfloat16"});
  rules.Require(run.steps >= 1, "run.steps", run.steps, "at least 1");
  rules.Require(run.checkpoint_interval >= 1, "run.checkpoint_interval", run.checkpoint_interval, "at least 1");
  rules.Require(run.lease_ms >= 1000, "run.lease_ms", run.lease_ms, "at least 1000");
  rules.Require(run.max_attempts >= 1, "run.max_attempts", run.max_attempts, "at least 1");
  rules.Require(run.data.max_prompt_tokens >= 1 && run.data.max_prompt_tokens <= kMaxTokens, "run.data.max_prompt_tokens",
                run.data.max_prompt_tokens, "between 1 and 1048576");
  const SamplingConfig& sampling = run.sampling;
  rules.Require(sampling.group_size >= 2 && sampling.group_size <= 4096, "run.sampling.group_size", sampling.group_size,
                "between 2 and 4096; one completion has no group to compare with");
  rules.Require(sampling.temperature > 0, "run.sampling.temperature", sampling.temperature, "above 0");
  rules.Require(sampling.top_p > 0 && sampling.top_p <= 1, "run.sampling.top_p", sampling.top_p, "in (0, 1]");
  rules.Require(sampling.top_k >= 0 && sampling.top_k <= kMaxTopK, "run.sampling.top_k", sampling.top_k, "0 (off) to 1048576");
  rules.Require(sampling.max_tokens >= 1 && sampling.max_tokens <= kMaxTokens, "run.sampling.max_tokens", sampling.max_tokens,
                "between 1 and 1048576");
  rules.Require(run.batch.prompts >= 1, "run.batch.prompts", run.batch.prompts, "at least 1");
  rules.Require(run.batch.max_age >= 0, "run.batch.max_age", run.batch.max_age, "0 (on-policy) or more");
  rules.Require(run.batch.window >= 1, "run.batch.window", run.batch.window, "at least 1");
  rules.Require(!run.deterministic || (run.batch.max_age == 0 && run.batch.window == 1), "run.deterministic", run.deterministic,
                "needs run.batch.max_age: 0 and run.batch.window: 1; workers keep only the newest version, so no older one can be named");
}

void CheckReward(const RewardConfig& reward, Rules& rules) {
  const auto between = [&](const std::string& key, std::int64_t value, std::int64_t least, std::int64_t most) {
    rules.Require(value >= least && value <= most, "run.reward." + key, value,
                  "between " + std::to_string(least) + " and " + std::to_string(most));
  };
  constexpr std::int64_t kDayMs = 86400000;
  CheckVerifierSettings(reward, rules);
  between("threads", reward.threads, 1, 1024);
  between("timeout_ms", reward.timeout_ms, 1, kDayMs);
  rules.Require(std::isfinite(reward.correct_from), "run.reward.correct_from", reward.correct_from, "a finite number");
  rules.Require(!reward.format.tags.empty(), "run.reward.format.tags", std::string("[]"), "name a tag or more: [think, answer]");
  rules.OneOf("run.reward.length.unit", reward.length.unit, {"words", "characters", "tokens"});
  between("length.min", reward.length.min, 0, reward.length.max);
  between("length.overlong_tokens", reward.length.overlong_tokens, 0, kMaxTokens);
  between("length.overlong_buffer", reward.length.overlong_buffer, 0, reward.length.overlong_tokens);
  rules.OneOf("run.reward.code.language", reward.code.language, {"python", "cpp"});
  between("code.cpu_seconds", reward.code.cpu_seconds, 1, 3600);
  between("code.wall_ms", reward.code.wall_ms, 1, kDayMs);
  between("code.compile_ms", reward.code.compile_ms, 1, kDayMs);
  between("code.memory_mb", reward.code.memory_mb, 64, 1 << 20);
  between("code.disk_mb", reward.code.disk_mb, 1, 1 << 20);
  between("code.output_kb", reward.code.output_kb, 1, 1 << 20);
  between("code.processes", reward.code.processes, 4, 4096);
  between("python.workers", reward.python.workers, 1, 1024);
  between("python.batch", reward.python.batch, 1, 4096);
  between("python.start_ms", reward.python.start_ms, 1, kDayMs);
  between("http.batch", reward.http.batch, 1, 4096);
  between("http.attempts", reward.http.attempts, 1, 100);
}

void CheckSelection(const SelectionConfig& selection, Rules& rules) {
  const std::string section = "run.data.selection.";
  const auto in_unit = [&](const std::string& key, double value) { rules.Require(value >= 0 && value <= 1, section + key, value, "in [0, 1]"); };
  rules.OneOf(section + "mode", selection.mode, {"none", "greso", "speed", "mopps"});
  in_unit("greso.keep_easy", selection.greso.keep_easy);
  in_unit("greso.keep_hard", selection.greso.keep_hard);
  in_unit("greso.target", selection.greso.target);
  rules.Require(selection.speed.rest >= 1 && selection.speed.rest <= 100, section + "speed.rest", selection.speed.rest, "between 1 and 100");
  rules.Require(selection.mopps.candidates >= 1 && selection.mopps.candidates <= 1024, section + "mopps.candidates",
                selection.mopps.candidates, "between 1 and 1024");
  in_unit("mopps.target", selection.mopps.target);
  in_unit("mopps.decay", selection.mopps.decay);
}

void CheckZeroVariance(const RunSettings& run, Rules& rules) {
  const std::string key = "run.batch.zero_variance";
  const std::string& policy = run.batch.zero_variance;
  const std::string& advantage = run.algorithm.advantage;
  rules.OneOf(key, policy, {"keep", "mask", "resample", "virtual"});
  rules.Require(policy != "virtual" || advantage == "avspo", key, policy, "needs run.algorithm.advantage: avspo, whose modes say how");
  const bool for_constant = advantage == "avspo" || advantage == "rl_zvp" || advantage == "ngrpo";
  rules.Require((policy != "mask" && policy != "resample") || !for_constant, key, policy,
                "leaves out the groups that run.algorithm.advantage: " + advantage + " is there for; use keep");
  rules.Require(run.batch.resample.cap >= 1 && run.batch.resample.cap <= 1000, "run.batch.resample.cap", run.batch.resample.cap,
                "between 1 and 1000");
  rules.Require(run.batch.resample.budget >= 0, "run.batch.resample.budget", run.batch.resample.budget, "0 (no bound) or more");
}

void CheckAvspo(const AvspoConfig& avspo, Rules& rules) {
  const std::string section = "run.algorithm.avspo.";
  const auto share = [&](const std::string& key, double value) { rules.Require(value >= 0 && value <= 1, section + key, value, "in [0, 1]"); };
  const auto not_negative = [&](const std::string& key, double value) {
    rules.Require(value >= 0 && std::isfinite(value), section + key, value, "0 or more");
  };
  rules.OneOf(section + "mode", avspo.mode, {"noise", "opposite", "ladder", "prior"});
  share("acr_threshold", avspo.acr_threshold);
  not_negative("slope", avspo.slope);
  not_negative("noise_std", avspo.noise_std);
  not_negative("ladder.alpha", avspo.ladder.alpha);
  rules.Require(avspo.ladder.anchor > 0 && std::isfinite(avspo.ladder.anchor), section + "ladder.anchor", avspo.ladder.anchor, "above 0");
  share("ladder.strength", avspo.ladder.strength);
  share("ladder.threshold_rate", avspo.ladder.threshold_rate);
  share("ladder.threshold_min", avspo.ladder.threshold_min);
  share("ladder.threshold_max", avspo.ladder.threshold_max);
  rules.Require(avspo.ladder.threshold_min <= avspo.ladder.threshold && avspo.ladder.threshold <= avspo.ladder.threshold_max,
                section + "ladder.threshold", avspo.ladder.threshold, "between threshold_min and threshold_max");
  rules.Require(avspo.prior.kappa > 0 && std::isfinite(avspo.prior.kappa), section + "prior.kappa", avspo.prior.kappa, "above 0");
  not_negative("prior.confidence_count", avspo.prior.confidence_count);
  share("prior.strength_correct", avspo.prior.strength_correct);
  share("prior.strength_wrong", avspo.prior.strength_wrong);
}

void CheckEstimators(const AlgorithmConfig& algorithm, Rules& rules) {
  rules.OneOf("run.algorithm.advantage", algorithm.advantage,
              {"grpo", "dr_grpo", "rloo", "opo", "reinforce_pp", "reinforce_pp_baseline", "gpg", "pass_k", "gdpo", "ngrpo", "rl_zvp",
               "w_reinforce", "reinforce_rej", "raft", "a_grae", "avspo"});
  rules.OneOf("run.algorithm.std", algorithm.std, {"sample", "population", "none"});
  rules.Require(algorithm.eps >= 0 && std::isfinite(algorithm.eps), "run.algorithm.eps", algorithm.eps, "0 or more");
  rules.OneOf("run.algorithm.a_grae.form", algorithm.a_grae.form, {"paper", "released"});
  rules.Require(algorithm.a_grae.alpha > 0 && algorithm.a_grae.alpha <= 1, "run.algorithm.a_grae.alpha", algorithm.a_grae.alpha,
                "in (0, 1]");
  rules.OneOf("run.algorithm.gpg.form", algorithm.gpg.form, {"verl", "official"});
  for (const double weight : algorithm.gdpo.weights) {
    rules.Require(std::isfinite(weight), "run.algorithm.gdpo.weights", weight, "finite numbers");
  }
  rules.Require(std::isfinite(algorithm.ngrpo.max_reward), "run.algorithm.ngrpo.max_reward", algorithm.ngrpo.max_reward,
                "a finite number");
  rules.Require(algorithm.rl_zvp.alpha >= 0 && std::isfinite(algorithm.rl_zvp.alpha), "run.algorithm.rl_zvp.alpha",
                algorithm.rl_zvp.alpha, "0 or more");
  rules.Require(algorithm.w_reinforce.positive_weight >= 0 && std::isfinite(algorithm.w_reinforce.positive_weight),
                "run.algorithm.w_reinforce.positive_weight", algorithm.w_reinforce.positive_weight, "0 or more");
  CheckAvspo(algorithm.avspo, rules);
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

bool OnLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool number = host.find_first_not_of("0123456789.") == std::string::npos;
  return (number && host.starts_with("127.")) || address.starts_with("localhost:") || address.starts_with("[::1]:");
}

void CheckSecurity(const LocalSettings& local, Rules& rules) {
  const SecurityConfig& security = local.security;
  const std::pair<const char*, const std::string&> files[] = {
      {"certificate", security.certificate}, {"key", security.key}, {"ca", security.ca}, {"token_file", security.token_file}};
  const bool any = std::ranges::any_of(files, [](const auto& file) { return !file.second.empty(); });
  for (const auto& [name, path] : files) {
    rules.Require(path.empty() != any, std::string("local.security.") + name, path,
                  "certificate, key, ca and token_file belong together: set all four, or none");
  }
  rules.Require(!(any && security.insecure), "local.security.insecure", security.insecure,
                "certificate and token are set as well; take out one or the other");
  if (any || security.insecure) return;
  const std::pair<const char*, const std::string&> listeners[] = {
      {"coordinator.listen", local.coordinator.listen}, {"coordinator.metrics", local.coordinator.metrics},
      {"worker.listen", local.worker.listen},           {"worker.metrics", local.worker.metrics},
      {"learner.listen", local.learner.listen},         {"learner.metrics", local.learner.metrics}};
  for (const auto& [name, address] : listeners) {
    rules.Require(OnLoopback(address), std::string("local.") + name, address,
                  "other machines reach it, and local.security names no certificate and token; deploy/make-certs.sh makes them "
                  "(local.security.insecure: true does without, for a network where you trust everybody)");
  }
}

void CheckAlarms(const AlarmConfig& alarms, Rules& rules) {
  const std::string section = "local.learner.alarms.";
  rules.Require(alarms.entropy_floor >= 0, section + "entropy_floor", alarms.entropy_floor, "0 (off) or more");
  rules.Require(alarms.entropy_steps >= 0, section + "entropy_steps", alarms.entropy_steps, "0 or more");
  rules.Require(alarms.entropy_fall > 0 && alarms.entropy_fall <= 1, section + "entropy_fall", alarms.entropy_fall, "in (0, 1]; 1 = off");
  rules.Require(alarms.trend_steps >= 3 && alarms.trend_steps <= 100000, section + "trend_steps", alarms.trend_steps, "between 3 and 100000");
  rules.Require(alarms.kl_limit > 0, section + "kl_limit", alarms.kl_limit, "above 0");
  rules.Require(alarms.distinct_floor >= 0 && alarms.distinct_floor <= 1, section + "distinct_floor", alarms.distinct_floor,
                "in [0, 1]; 0 = off");
}

void CheckLocal(const LocalSettings& local, Rules& rules) {
  rules.Require(!local.out.empty(), "local.out", local.out, "name the folder of the run");
  rules.Require(local.coordinator.payload_segment_bytes >= 1, "local.coordinator.payload_segment_bytes",
                local.coordinator.payload_segment_bytes, "at least 1");
  rules.OneOf("local.worker.device", local.worker.device, {"cpu", "cuda"});
  rules.OneOf("local.worker.engine", local.worker.engine, {"embedded", "vllm"});
  rules.OneOf("local.worker.weights", local.worker.weights, {"shared", "grpc"});
  rules.Require(local.worker.threads >= 1, "local.worker.threads", local.worker.threads, "at least 1");
  rules.Require(local.worker.max_running >= 1, "local.worker.max_running", local.worker.max_running, "at least 1");
  rules.Require(local.worker.kv_cache_tokens >= 1, "local.worker.kv_cache_tokens", local.worker.kv_cache_tokens, "at least 1");
  rules.OneOf("local.learner.collective", local.learner.collective, {"local", "mpi", "nccl"});
  rules.OneOf("local.learner.device", local.learner.device, {"cpu", "cuda"});
  const bool on_gpu = local.learner.device == "cuda";
  rules.Require(local.learner.collective == "local" || (local.learner.collective == "nccl") == on_gpu, "local.learner.collective",
                local.learner.collective, on_gpu ? "sums in CPU memory; with device: cuda use nccl, or local for one rank"
                                                 : "sums in GPU memory; with device: cpu use mpi, or local for one rank");
  rules.Require(local.learner.threads >= 1, "local.learner.threads", local.learner.threads, "at least 1");
  rules.Require(local.learner.micro_batch_tokens >= 1, "local.learner.micro_batch_tokens",
                local.learner.micro_batch_tokens, "at least 1");
  rules.Require(local.learner.logprob_chunk_tokens >= 1, "local.learner.logprob_chunk_tokens",
                local.learner.logprob_chunk_tokens, "at least 1");
  rules.Require(local.learner.collective_timeout_ms >= 1000, "local.learner.collective_timeout_ms",
                local.learner.collective_timeout_ms, "at least 1000");
  rules.Require(local.launch.workers >= 1, "local.launch.workers", local.launch.workers, "at least 1");
  rules.Require(local.launch.learner_ranks >= 1, "local.launch.learner_ranks", local.launch.learner_ranks, "at least 1");
  rules.Require(local.launch.max_restarts >= 0, "local.launch.max_restarts", local.launch.max_restarts, "0 or more");
  rules.Require(!(local.learner.collective == "local" && local.launch.learner_ranks > 1), "local.learner.collective",
                local.learner.collective,
                "is for one rank, local.launch.learner_ranks asks for more; use mpi, or nccl where GPUs are");
}

void CheckVllm(const RunConfig& config, Rules& rules) {
  if (config.local.worker.engine != "vllm") return;
  const VllmConfig& vllm = config.local.worker.vllm;
  rules.Require(!vllm.servers.empty(), "local.worker.vllm.servers", std::string("[]"), "name a server or more: [http://host:8000]");
  for (const std::string& server : vllm.servers) {
    const bool http = server.starts_with("http://") || server.starts_with("https://");
    rules.Require(http && !server.ends_with("/"), "local.worker.vllm.servers", server,
                  "expected http://host:port or https://host:port, without / at the end");
    rules.Require(std::count(vllm.servers.begin(), vllm.servers.end(), server) == 1, "local.worker.vllm.servers", server,
                  "stands twice; name each server once");
  }
  rules.Require(vllm.concurrency >= 0 && vllm.concurrency <= 65536, "local.worker.vllm.concurrency", vllm.concurrency,
                "0 (the server's own bound) to 65536");
  rules.Require(vllm.attempts >= 1, "local.worker.vllm.attempts", vllm.attempts, "at least 1");
  rules.Require(vllm.connect_ms >= 1, "local.worker.vllm.connect_ms", vllm.connect_ms, "at least 1");
  rules.Require(vllm.first_byte_ms >= 1, "local.worker.vllm.first_byte_ms", vllm.first_byte_ms, "at least 1");
  rules.Require(vllm.idle_ms >= 1, "local.worker.vllm.idle_ms", vllm.idle_ms, "at least 1");
  rules.Require(vllm.control_ms >= 1000, "local.worker.vllm.control_ms", vllm.control_ms, "at least 1000");
  rules.Require(vllm.canary_nats >= 0, "local.worker.vllm.canary_nats", vllm.canary_nats, "at least 0");
  rules.Require(vllm.revive_ms >= 1, "local.worker.vllm.revive_ms", vllm.revive_ms, "at least 1");
  rules.Require(config.run.sampling.temperature <= 2, "run.sampling.temperature", config.run.sampling.temperature,
                "at most 2 with local.worker.engine: vllm");
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
  CheckLocal(config.local, rules);
  CheckSecurity(config.local, rules);
  CheckAlarms(config.local.learner.alarms, rules);
  CheckVllm(config, rules);
  return rules.Verdict();
}

}  // namespace buttress
