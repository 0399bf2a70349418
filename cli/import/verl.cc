// The settings of verl 0.9 (its ppo_trainer.yaml and the keys that recipes override).
#include <fmt/core.h>

#include <cstdlib>

#include "cli/import/settings.h"

namespace buttress {
namespace {

constexpr std::string_view kSizing = "processes and memory are sized in section local";
constexpr std::string_view kOtherRow = "";  // combine() reads it

constexpr ImportRow kRows[] = {
    {"data.train_files", "run.data.prompts"},
    {"data.val_files", "run.data.held_out"},
    {"data.val_max_samples", "", kOtherRow},
    {"data.val_batch_size", "", "evaluations are batched by local.worker.max_running"},
    {"data.prompt_key", "run.data.prompt_field", "", "", "prompt"},
    {"data.reward_fn_key", "run.data.source_field", "", "", "data_source"},
    {"data.max_prompt_length", "run.data.max_prompt_tokens", "", "", "512"},
    {"data.max_response_length", "run.sampling.max_tokens", "", "", "512"},
    {"data.train_batch_size", "run.batch.prompts", "", "", "1024"},
    {"data.gen_batch_size", "", "prompts are drawn one by one, as the step needs them"},
    {"data.shuffle", "run.data.shuffle", "", "True=true true=true False=false false=false", "true"},
    {"data.seed", "run.seed"},
    {"data.truncation", "", "prompts that are too long are refused at start, by line"},
    {"data.filter_overlong_prompts", "run.data.over_long", "",
     "True=drop true=drop False=refuse false=refuse", "false"},
    {"actor_rollout_ref.model.path", "run.model.path"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", "local.learner.recompute", "",
     "True=true true=true False=false false=false"},
    {"actor_rollout_ref.model.lora_rank", "", "every parameter is trained"},
    {"actor_rollout_ref.rollout.dtype", "run.model.dtype", "bfloat16 and float32 only",
     "bfloat16=bfloat16 bf16=bfloat16 float32=float32 fp32=float32", "bfloat16"},
    {"actor_rollout_ref.actor.fsdp_config.model_dtype", "",
     "the optimizer keeps float32 beside bfloat16 parameters (run.optim.precision)"},
    {"actor_rollout_ref.actor.optim.lr", "run.optim.lr", "", "", "1e-6"},
    {"actor_rollout_ref.actor.optim.weight_decay", "run.optim.weight_decay",
     "here on matrices only", "", "0.01"},
    {"actor_rollout_ref.actor.optim.lr_warmup_steps", "", kOtherRow, "", "-1"},
    {"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio", "", kOtherRow},
    {"actor_rollout_ref.actor.optim.lr_scheduler_type", "run.optim.schedule", "",
     "constant=constant cosine=cosine linear=linear", "constant"},
    {"actor_rollout_ref.actor.optim.warmup_style", "run.optim.schedule", "",
     "constant=constant cosine=cosine"},
    {"actor_rollout_ref.actor.optim.min_lr_ratio", "run.optim.min_lr_ratio", "", "", "0.0"},
    {"actor_rollout_ref.actor.optim.betas", "", kOtherRow, "", "[0.9, 0.999]"},
    {"actor_rollout_ref.actor.optim.clip_grad", "run.optim.clip_grad"},
    {"actor_rollout_ref.actor.grad_clip", "run.optim.clip_grad", "", "", "1.0"},
    {"actor_rollout_ref.actor.clip_ratio", "run.algorithm.clip_low run.algorithm.clip_high", "", "",
     "0.2"},
    {"actor_rollout_ref.actor.clip_ratio_low", "run.algorithm.clip_low"},
    {"actor_rollout_ref.actor.clip_ratio_high", "run.algorithm.clip_high"},
    {"actor_rollout_ref.actor.clip_ratio_c", "", kOtherRow, "", "3.0"},
    {"actor_rollout_ref.actor.policy_loss.loss_mode", "run.algorithm.loss", "",
     "vanilla=ppo gspo=gspo sapo=sapo cispo=cispo geo_mean=gmpo clip_cov=clip_cov kl_cov=kl_cov "
     "gpg=gpg dppo_tv=dppo_tv dppo_kl=dppo_kl",
     "vanilla"},
    {"actor_rollout_ref.actor.loss_agg_mode", "run.algorithm.aggregation", "",
     "token-mean=token_mean seq-mean-token-mean=seq_mean_token_mean "
     "seq-mean-token-sum=seq_mean_token_sum seq-mean-token-sum-norm=seq_mean_token_sum_norm",
     "token-mean"},
    {"actor_rollout_ref.actor.entropy_coeff", "run.algorithm.entropy_coef", "", "", "0"},
    {"actor_rollout_ref.actor.use_kl_loss", "", kOtherRow, "", "false"},
    {"actor_rollout_ref.actor.kl_loss_coef", "", kOtherRow, "", "0.001"},
    {"actor_rollout_ref.actor.kl_loss_type", "", kOtherRow, "", "low_var_kl"},
    {"actor_rollout_ref.actor.ppo_mini_batch_size", "", kOtherRow, "", "256"},
    {"actor_rollout_ref.actor.ppo_epochs", "run.batch.epochs", "", "", "1"},
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "",
     "micro-batches are cut by tokens: local.learner.micro_batch_tokens"},
    {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "local.learner.micro_batch_tokens"},
    {"actor_rollout_ref.actor.use_dynamic_bsz", "", "micro-batches are always cut by tokens"},
    {"actor_rollout_ref.rollout.n", "run.sampling.group_size", "", "", "1"},
    {"actor_rollout_ref.rollout.temperature", "run.sampling.temperature", "", "", "1.0"},
    {"actor_rollout_ref.rollout.top_p", "run.sampling.top_p", "", "", "1"},
    {"actor_rollout_ref.rollout.top_k", "run.sampling.top_k", "", "", "-1"},
    {"actor_rollout_ref.rollout.val_kwargs.n", "", kOtherRow, "", "1"},
    {"actor_rollout_ref.rollout.val_kwargs.do_sample", "", kOtherRow, "", "false"},
    {"actor_rollout_ref.rollout.val_kwargs.temperature", "", kOtherRow, "", "0"},
    {"actor_rollout_ref.rollout.val_kwargs.top_p", "", "evaluations sample from all tokens"},
    {"actor_rollout_ref.rollout.val_kwargs.top_k", "", "evaluations sample from all tokens"},
    {"actor_rollout_ref.rollout.name", "",
     "the embedded engine samples; for vLLM set local.worker.engine and local.worker.vllm.servers"},
    {"actor_rollout_ref.rollout.gpu_memory_utilization", "", kSizing},
    {"actor_rollout_ref.rollout.tensor_model_parallel_size", "", kSizing},
    {"actor_rollout_ref.rollout.max_num_seqs", "local.worker.max_running"},
    {"algorithm.adv_estimator", "run.algorithm.advantage", "there is no such estimator here",
     "grpo=grpo rloo=rloo opo=opo gpg=gpg reinforce_plus_plus=reinforce_pp "
     "reinforce_plus_plus_baseline=reinforce_pp_baseline grpo_passk=pass_k gdpo=gdpo",
     "gae"},
    {"algorithm.norm_adv_by_std_in_grpo", "", kOtherRow, "", "true"},
    {"algorithm.use_kl_in_reward", "", kOtherRow, "", "false"},
    {"algorithm.kl_penalty", "", kOtherRow, "", "kl"},
    {"algorithm.kl_ctrl.kl_coef", "", kOtherRow, "", "0.001"},
    {"algorithm.kl_ctrl.type", "", kOtherRow},
    {"algorithm.gamma", "", "the reward of a completion counts for all its tokens alike"},
    {"algorithm.lam", "", "there is no critic"},
    {"algorithm.filter_groups.enable", "run.batch.zero_variance", "",
     "True=resample true=resample False=keep false=keep"},
    {"algorithm.filter_groups.max_num_gen_batches", "", kOtherRow},
    {"algorithm.filter_groups.metric", "", "groups with equal raw rewards are replaced"},
    {"custom_reward_function.path", "", kOtherRow},
    {"custom_reward_function.name", "", kOtherRow},
    {"reward.custom_reward_function.path", "", kOtherRow},
    {"reward.custom_reward_function.name", "", kOtherRow},
    {"reward_model.reward_manager", "", kOtherRow},
    {"reward_model.overlong_buffer.enable", "", kOtherRow},
    {"reward_model.overlong_buffer.len", "", kOtherRow},
    {"reward_model.overlong_buffer.penalty_factor", "", kOtherRow},
    {"trainer.total_training_steps", "run.steps"},
    {"trainer.total_epochs", "", kOtherRow, "", "30"},
    {"trainer.save_freq", "", kOtherRow, "", "-1"},
    {"trainer.test_freq", "", kOtherRow, "", "-1"},
    {"trainer.val_before_train", "", "launch evaluates before and after, unless --no-eval"},
    {"trainer.max_actor_ckpt_to_keep", "", kOtherRow},
    {"trainer.max_critic_ckpt_to_keep", "", "there is no critic"},
    {"trainer.experiment_name", "run.name"},
    {"trainer.project_name", "", "name the run in run.name"},
    {"trainer.default_local_dir", "local.out"},
    {"trainer.logger", "",
     "set local.track; measurements are in <out>/steps.jsonl and at /metrics"},
    {"trainer.n_gpus_per_node", "", kSizing},
    {"trainer.nnodes", "", kSizing},
};

std::string Value(const FlatSettings& theirs, const std::string& key) {
  const auto found = theirs.find(key);
  return found == theirs.end() ? "" : found->second;
}

double Number(const FlatSettings& theirs, const std::string& key) {
  return std::strtod(Value(theirs, key).c_str(), nullptr);
}

bool IsTrue(const FlatSettings& theirs, const std::string& key) {
  return Value(theirs, key) == "true" || Value(theirs, key) == "True";
}

void SetKl(const FlatSettings& theirs, Imported& result) {
  const std::string actor = "actor_rollout_ref.actor.";
  const bool in_reward = IsTrue(theirs, "algorithm.use_kl_in_reward");
  if (!in_reward && !IsTrue(theirs, actor + "use_kl_loss")) return;
  if (in_reward && Value(theirs, "algorithm.kl_ctrl.type") == "adaptive")
    result.notes.emplace_back(
        "not carried: algorithm.kl_ctrl.type: adaptive: the coefficient is constant");
  const std::string kind =
      Value(theirs, in_reward ? "algorithm.kl_penalty" : actor + "kl_loss_type");
  result.ours["run.algorithm.kl_in"] = in_reward ? "reward" : "loss";
  result.ours["run.algorithm.kl_coef"] =
      Value(theirs, in_reward ? "algorithm.kl_ctrl.kl_coef" : actor + "kl_loss_coef");
  result.ours["run.algorithm.kl_estimator"] = kind == "kl" || kind == "k1"    ? "k1"
                                              : kind == "mse" || kind == "k2" ? "k2"
                                                                              : "k3";
  if (kind == "abs") result.notes.emplace_back("nearest: KL 'abs' became k3");
}

void SetBatches(const FlatSettings& theirs, Imported& result) {
  const double batch = Number(theirs, "data.train_batch_size");
  const double mini = Number(theirs, "actor_rollout_ref.actor.ppo_mini_batch_size");
  const auto updates = mini > 0 ? static_cast<long>((batch + mini - 1) / mini) : 1;
  result.ours["run.batch.updates"] = std::to_string(updates);
  if (mini > 0 && static_cast<double>(updates) * mini != batch && mini < batch)
    result.notes.push_back(fmt::format(
        "nearest: {} prompts in mini-batches of {} became {} updates of about equal size", batch,
        mini, updates));
  const std::string cap = Value(theirs, "algorithm.filter_groups.max_num_gen_batches");
  if (!cap.empty() && cap != "0") result.ours["run.batch.resample.cap"] = cap;
}

void SetReward(const FlatSettings& theirs, Imported& result) {
  for (const std::string prefix : {"custom_reward_function.", "reward.custom_reward_function."}) {
    const std::string path = Value(theirs, prefix + "path");
    const std::string name = Value(theirs, prefix + "name");
    if (!path.empty())
      result.ours["run.reward.verifier"] =
          fmt::format("python:{}:{}", path, name.empty() ? "compute_score" : name);
  }
  if (!result.ours.contains("run.reward.verifier")) {
    result.ours["run.reward.verifier"] = "math";
    result.notes.emplace_back(
        "nearest: verl's function by data_source became the verifier math; name others in "
        "run.reward.by_source");
  }
  const std::string buffer = "reward_model.overlong_buffer.";
  if (!IsTrue(theirs, buffer + "enable")) return;
  result.ours["run.algorithm.overlong.cache"] = Value(theirs, buffer + "len");
  result.ours["run.algorithm.overlong.penalty"] = Value(theirs, buffer + "penalty_factor");
}

// "[0.9, 0.999]"
void SetBetas(const FlatSettings& theirs, Imported& result) {
  const std::string betas = Value(theirs, "actor_rollout_ref.actor.optim.betas");
  const std::size_t comma = betas.find(',');
  if (!betas.starts_with("[") || comma == std::string::npos) return;
  result.ours["run.optim.beta1"] = betas.substr(1, comma - 1);
  result.ours["run.optim.beta2"] = fmt::format("{}", std::strtod(&betas[comma + 1], nullptr));
}

void SetSteps(const FlatSettings& theirs, Imported& result) {
  const std::string optim = "actor_rollout_ref.actor.optim.";
  if (Number(theirs, optim + "lr_warmup_steps") > 0)
    result.ours["run.optim.warmup_steps"] = Value(theirs, optim + "lr_warmup_steps");
  else if (Number(theirs, optim + "lr_warmup_steps_ratio") > 0)
    result.notes.emplace_back("not carried: " + optim +
                              "lr_warmup_steps_ratio: set run.optim.warmup_steps");
  if (Number(theirs, "trainer.save_freq") > 0)
    result.ours["run.checkpoint_interval"] = Value(theirs, "trainer.save_freq");
  const std::string kept = "trainer.max_actor_ckpt_to_keep";
  if (Number(theirs, kept) > 0)
    KeepCheckpoints(kept, static_cast<long>(Number(theirs, kept)), result);
  if (Number(theirs, "trainer.total_training_steps") > 0) return;
  result.ours.erase("run.steps");
  result.ours["run.epochs"] = Value(theirs, "trainer.total_epochs");
}

void SetEvaluations(const FlatSettings& theirs, Imported& result) {
  if (Number(theirs, "trainer.test_freq") <= 0) return;
  if (!result.ours.contains("run.data.held_out")) {
    result.notes.push_back("not carried: trainer.test_freq: " + Value(theirs, "trainer.test_freq") +
                           ": there is no data.val_files; set run.data.held_out and "
                           "run.eval.every");
    return;
  }
  result.ours["run.eval.every"] = Value(theirs, "trainer.test_freq");
  if (Number(theirs, "data.val_max_samples") > 0)
    result.ours["run.eval.prompts"] = Value(theirs, "data.val_max_samples");
  const std::string sampling = "actor_rollout_ref.rollout.val_kwargs.";
  const bool samples = IsTrue(theirs, sampling + "do_sample");
  if (!samples || Number(theirs, sampling + "temperature") <= 0) return;  // greedy
  result.ours["run.eval.samples"] = Value(theirs, sampling + "n");
  result.ours["run.eval.temperature"] = Value(theirs, sampling + "temperature");
}

void Combine(const FlatSettings& theirs, Imported& result) {
  SetKl(theirs, result);
  SetBatches(theirs, result);
  SetReward(theirs, result);
  SetBetas(theirs, result);
  SetSteps(theirs, result);
  SetEvaluations(theirs, result);
  const std::string dual_clip = Value(theirs, "actor_rollout_ref.actor.clip_ratio_c");
  if (result.ours["run.algorithm.loss"] == "ppo")
    result.ours["run.algorithm.dual_clip"] = dual_clip;
  if (!IsTrue(theirs, "algorithm.norm_adv_by_std_in_grpo") &&
      result.ours["run.algorithm.advantage"] == "grpo")
    result.ours["run.algorithm.advantage"] = "dr_grpo";
  if (Number(theirs, "actor_rollout_ref.rollout.top_k") < 0)
    result.ours["run.sampling.top_k"] = "0";
  result.ours["run.data.answer_field"] = "reward_model.ground_truth";
  result.ours["run.batch.max_age"] = "0";
  result.ours["run.algorithm.old_policy"] = "learner";
  std::erase_if(result.ours, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace

const ImportSource& VerlSettings() {
  static constexpr ImportSource kSource{"verl", kRows, Combine};
  return kSource;
}

}  // namespace buttress
