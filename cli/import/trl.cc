// The settings of TRL 1.16 (GRPOConfig, and the arguments of its script `trl grpo`).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/import/settings.h"

namespace buttress {
namespace {

constexpr std::string_view kYesNo = "True=true true=true False=false false=false";
constexpr std::string_view kOtherRow = "";  // combine() reads it
constexpr std::string_view kServers =
    "the embedded engine samples; for vLLM set local.worker.engine and local.worker.vllm.servers";
constexpr std::string_view kSizing = "memory of vLLM is set where its servers are started";

constexpr ImportRow kRows[] = {
    {"model_name_or_path", "run.model.path", "a folder; names of the hub are not downloaded"},
    {"dtype", "run.model.dtype", "bfloat16 and float32 only",
     "bfloat16=bfloat16 float32=float32 auto=bfloat16"},
    {"bf16", "run.model.dtype", "", "True=bfloat16 true=bfloat16 False=float32 false=float32"},
    {"fp16", "", "bfloat16 and float32 only: run.model.dtype"},
    {"dataset_name", "", "set run.data.prompts to a file or folder of its rows"},
    {"reward_funcs", "", "set run.reward.verifier: python:FILE:FUNCTION + ..."},
    {"reward_weights", "", "write them in run.reward.verifier: 0.5 * python:FILE:FUNCTION"},
    {"output_dir", "local.out"},
    {"run_name", "run.name"},
    {"seed", "run.seed", "", "", "42"},
    {"max_steps", "", kOtherRow, "", "-1"},
    {"num_train_epochs", "", kOtherRow, "", "3.0"},
    {"save_strategy", "", kOtherRow, "", "steps"},
    {"save_steps", "", kOtherRow},
    {"logging_steps", "", "every step is logged"},
    {"report_to", "local.track.tensorboard", "set local.track", "tensorboard=true none=false"},
    {"eval_strategy", "", kOtherRow, "", "no"},
    {"eval_steps", "", kOtherRow},
    {"num_generations_eval", "", kOtherRow},
    {"save_total_limit", "", kOtherRow},
    {"load_best_model_at_end", "run.checkpoints.keep_best", "", "True=1 true=1 False=0 false=0"},
    {"learning_rate", "run.optim.lr", "", "", "1e-6"},
    {"weight_decay", "run.optim.weight_decay", "here on matrices only", "", "0.0"},
    {"adam_beta1", "run.optim.beta1", "", "", "0.9"},
    {"adam_beta2", "run.optim.beta2", "", "", "0.999"},
    {"adam_epsilon", "run.optim.eps", "", "", "1e-8"},
    {"max_grad_norm", "run.optim.clip_grad", "", "", "1.0"},
    {"warmup_steps", "", kOtherRow},
    {"warmup_ratio", "", "set run.optim.warmup_steps"},
    {"lr_scheduler_type", "run.optim.schedule", "there is no such schedule here",
     "linear=linear cosine=cosine constant=constant constant_with_warmup=constant", "linear"},
    {"gradient_checkpointing", "local.learner.recompute", "", kYesNo},
    {"per_device_train_batch_size", "", kOtherRow, "", "8"},
    {"gradient_accumulation_steps", "", kOtherRow, "", "1"},
    {"generation_batch_size", "", kOtherRow},
    {"steps_per_generation", "", kOtherRow},
    {"num_generations", "run.sampling.group_size", "", "", "8"},
    {"max_completion_length", "run.sampling.max_tokens", "", "", "512"},
    {"temperature", "run.sampling.temperature", "", "", "1.0"},
    {"top_p", "run.sampling.top_p", "", "", "1.0"},
    {"top_k", "run.sampling.top_k", "", "", "0"},
    {"min_p", "", "top_p and top_k only"},
    {"repetition_penalty", "", "the log-probs of the sampler have no penalties"},
    {"shuffle_dataset", "run.data.shuffle", "", kYesNo, "true"},
    {"chat_template_kwargs", "", "set run.data.template_arguments"},
    {"use_vllm", "", kServers},
    {"vllm_mode", "", kServers},
    {"vllm_server_host", "", kServers},
    {"vllm_server_port", "", kServers},
    {"vllm_server_base_url", "", kServers},
    {"vllm_gpu_memory_utilization", "", kSizing},
    {"vllm_tensor_parallel_size", "", kSizing},
    {"vllm_max_model_length", "", kSizing},
    {"vllm_importance_sampling_correction", "", "set run.algorithm.correction.mode: tis"},
    {"vllm_importance_sampling_mode", "", "set run.algorithm.correction"},
    {"vllm_importance_sampling_clip_max", "run.algorithm.correction.cap"},
    {"beta", "run.algorithm.kl_coef", "", "", "0.0"},
    {"use_bias_correction_kl", "", "the KL is not weighted by the ratio"},
    {"sync_ref_model", "", "the reference stays the start model"},
    {"num_iterations", "run.batch.epochs", "", "", "1"},
    {"epsilon", "run.algorithm.clip_low run.algorithm.clip_high", "", "", "0.2"},
    {"epsilon_high", "run.algorithm.clip_high"},
    {"delta", "run.algorithm.dual_clip"},
    {"importance_sampling_level", "run.algorithm.loss", "there is no such level here",
     "token=ppo sequence=gspo", "token"},
    {"loss_type", "run.algorithm.aggregation", "there is no such loss here",
     "grpo=seq_mean_token_mean dapo=token_mean bnpo=token_mean dr_grpo=seq_mean_token_sum_norm "
     "cispo=token_mean sapo=seq_mean_token_mean",
     "dapo"},
    {"sapo_temperature_pos", "run.algorithm.sapo.tau_positive"},
    {"sapo_temperature_neg", "run.algorithm.sapo.tau_negative"},
    {"scale_rewards", "run.algorithm.advantage", "advantages are not scaled over the batch",
     "group=grpo True=grpo true=grpo none=dr_grpo False=dr_grpo false=dr_grpo", "group"},
    {"multi_objective_aggregation", "", kOtherRow},
    {"mask_truncated_completions", "run.algorithm.overlong.filter", "", kYesNo},
    {"top_entropy_quantile", "", "every token is trained"},
    {"entropy_coef", "run.algorithm.entropy_coef"},
    {"use_adaptive_entropy", "", "set run.algorithm.adaptive_entropy"},
    {"log_completions", "", "buttress samples shows them"},
    {"remove_unused_columns", "", "reward functions get every field of the rows"},
};

std::string Value(const FlatSettings& theirs, const std::string& key) {
  const auto found = theirs.find(key);
  return found == theirs.end() ? "" : found->second;
}

long Whole(const FlatSettings& theirs, const std::string& key) {
  return std::strtol(Value(theirs, key).c_str(), nullptr, 10);
}

// TRL counts completions, of one process; a step of ours counts prompts and makes all updates
// between two generations.
void SetBatches(const FlatSettings& theirs, Imported& result) {
  const long device = Whole(theirs, "per_device_train_batch_size");
  const long accumulation = std::max(Whole(theirs, "gradient_accumulation_steps"), 1L);
  long steps_per_generation = Whole(theirs, "steps_per_generation");
  if (steps_per_generation == 0) steps_per_generation = accumulation;
  long completions = Whole(theirs, "generation_batch_size");
  if (completions == 0) completions = device * steps_per_generation;
  const long group = std::max(Whole(theirs, "num_generations"), 1L);
  result.ours["run.batch.prompts"] = std::to_string(std::max(completions / group, 1L));
  result.ours["run.batch.updates"] =
      std::to_string(std::max(completions / std::max(device * accumulation, 1L), 1L));
  result.ours["run.batch.mini_batch"] = "completions";
  result.notes.push_back(fmt::format(
      "nearest: {} completions of one process became run.batch.prompts {}; multiply it by the "
      "number of processes",
      completions, result.ours["run.batch.prompts"]));
}

// Sets `ours` to a number of TRL's steps, of which a step of ours makes `updates`. TRL reads a
// number below 1 as a share of all steps, which are not known here.
void SetStepCount(const FlatSettings& theirs, const std::string& key, const std::string& ours,
                  long updates, Imported& result) {
  const double count = std::strtod(Value(theirs, key).c_str(), nullptr);
  if (count <= 0) return;
  if (count < 1) {
    result.notes.push_back(fmt::format("not carried: {}: {}: it is a share of all steps; set {}",
                                       key, Value(theirs, key), ours));
    return;
  }
  const auto steps = static_cast<long>(std::ceil(count / static_cast<double>(updates)));
  result.ours[ours] = std::to_string(steps);
  if (updates > 1)
    result.notes.push_back(
        fmt::format("nearest: {}: {} optimizer steps became {} {}, as a step "
                    "makes {} of them",
                    key, count, ours, steps, updates));
}

void SetLength(const FlatSettings& theirs, long updates, Imported& result) {
  SetStepCount(theirs, "max_steps", "run.steps", updates, result);
  if (result.ours.contains("run.steps")) return;
  const std::string given = Value(theirs, "num_train_epochs");
  const double epochs = std::strtod(given.c_str(), nullptr);
  const long passes = std::max(static_cast<long>(std::ceil(epochs)), 1L);
  result.ours["run.epochs"] = std::to_string(passes);
  if (static_cast<double>(passes) != epochs)
    result.notes.push_back(
        fmt::format("nearest: num_train_epochs: {} became run.epochs {}", given, passes));
}

void SetEvaluations(const FlatSettings& theirs, long updates, Imported& result) {
  const std::string strategy = Value(theirs, "eval_strategy");
  if (strategy == "no") return;
  if (strategy == "steps") SetStepCount(theirs, "eval_steps", "run.eval.every", updates, result);
  if (!result.ours.contains("run.eval.every")) {
    result.notes.push_back(
        fmt::format("not carried: eval_strategy: {}: set run.eval.every", strategy));
    return;
  }
  result.notes.emplace_back(
      "nearest: the evaluations are of the prompts that run.data.held_out names, greedy unless "
      "run.eval.temperature says otherwise");
  const long samples = Whole(theirs, "num_generations_eval");
  if (samples < 2) return;
  result.ours["run.eval.samples"] = std::to_string(samples);
  result.ours["run.eval.temperature"] = Value(theirs, "temperature");
}

void SetCheckpoints(const FlatSettings& theirs, long updates, Imported& result) {
  const std::string strategy = Value(theirs, "save_strategy");
  if (strategy == "steps") {
    SetStepCount(theirs, "save_steps", "run.checkpoint_interval", updates, result);
  } else {
    result.notes.push_back(
        fmt::format("not carried: save_strategy: {}: a checkpoint is written every "
                    "run.checkpoint_interval steps",
                    strategy));
  }
  // TRL's limit includes the best one.
  const auto kept = result.ours.find("run.checkpoints.keep_best");
  const long best = kept != result.ours.end() && kept->second == "1" ? 1 : 0;
  const long limit = Whole(theirs, "save_total_limit");
  if (limit <= 0) return;
  KeepCheckpoints("save_total_limit", limit - std::min(best, limit - 1), result);
}

void SetSteps(const FlatSettings& theirs, Imported& result) {
  const long updates = std::strtol(result.ours["run.batch.updates"].c_str(), nullptr, 10) *
                       std::max(Whole(theirs, "num_iterations"), 1L);
  SetLength(theirs, updates, result);
  SetEvaluations(theirs, updates, result);
  SetCheckpoints(theirs, updates, result);
  SetStepCount(theirs, "warmup_steps", "run.optim.warmup_steps", updates, result);
}

void Combine(const FlatSettings& theirs, Imported& result) {
  SetBatches(theirs, result);
  SetSteps(theirs, result);
  const std::string loss = Value(theirs, "loss_type");
  if (loss == "cispo" || loss == "sapo") result.ours["run.algorithm.loss"] = loss;
  if (loss == "bnpo")
    result.notes.emplace_back(
        "nearest: loss_type: bnpo: the mean is over the tokens of the update, not of a "
        "micro-batch");
  if (Value(theirs, "multi_objective_aggregation") == "normalize_then_sum")
    result.ours["run.algorithm.advantage"] = "gdpo";
  if (Whole(theirs, "top_k") < 0) result.ours["run.sampling.top_k"] = "0";
  result.ours["run.algorithm.eps"] = "1e-4";
  result.ours["run.optim.min_lr_ratio"] = "0";
  result.ours["run.batch.max_age"] = "0";
  result.ours["run.algorithm.old_policy"] = "learner";
  result.ours["run.reward.verifier"] = "math";
  result.notes.emplace_back(
      "nearest: reward functions are Python objects in TRL; run.reward.verifier is math until you "
      "name yours: python:FILE:FUNCTION");
}

}  // namespace

const ImportSource& TrlSettings() {
  static constexpr ImportSource kSource{"trl", kRows, Combine};
  return kSource;
}

}  // namespace buttress
