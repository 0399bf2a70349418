"""Translates the settings of verl and TRL into ours; `buttress import` runs it.

import.py (verl|trl) FILE [KEY=VALUE...]   YAML of a run to stdout, what was not carried to stderr

Ends with status 1, and the error on stdout, where FILE cannot be read.
"""

import dataclasses
import json
import math
import re
import shlex
import sys

try:
    import yaml
except ImportError:
    print("this command needs PyYAML; run: python3 -m pip install pyyaml, or apt-get install "
          "python3-yaml", end="")
    sys.exit(1)

DAY_MS = "86400000"  # the most that run.reward.timeout_ms takes
LARGEST = 1 << 20  # bytes of a file
MOST_REFERENCES = 8  # ${a} that stands for ${b} and so on
MOST_LEVELS = 16
FEWEST_CHECKPOINTS = 2  # so that a damaged one has one before it

KWARGS = re.compile(r"(reward\.)?custom_reward_function\.reward_kwargs\.")
BOOL = "True=true true=true False=false false=false"
RECOMPUTE = "True=block true=block False=none false=none"
SERVERS = ("the embedded engine samples; for vLLM set local.worker.engine and "
           "local.worker.vllm.launch")
SIZED_HERE = "processes and memory are sized in section local"
SIZED_BY_VLLM = "memory of vLLM is set where its servers are started"
LORA_TARGETS = "set run.lora.targets"
NO_DROPOUT = "adapters are trained without dropout"
NO_SEQUENCE_PARALLEL = ("sequences are not split over GPUs: each rank would hold whole ones, and "
                        "long ones may not fit its memory")
WHOLE_MODEL = ("nothing is sharded: each rank would hold the whole model, its gradient and its "
               "optimizer state")
NO_REWARD_MODEL = ("no reward model is started, and its scores would be missing: serve it, and set "
                   "run.reward.verifier: http")
MULTI_TURN = "actor_rollout_ref.rollout.multi_turn."
AGENT = "make it a program of run.env.kind: exec, named in run.env.command (docs/agents.md)"
TOOLS = ("they are not called: run.env.tools has calculator, python and search; others are called "
         "by a program of yours, run.env.kind: exec (docs/agents.md)")
TOOL_FORMATS = {"hermes": "hermes", "llama3_json": "llama", "qwen3_coder": "qwen"}
MOST_TURNS, MOST_CALLS, LONGEST_RESULT = 4096, 65536, 1 << 24  # of run.env
FEWEST_RESULT_BYTES = 64
OFF = ("false", "0", "0.0", "no", "none", "[]", "{}")


@dataclasses.dataclass
class Row:
    """What becomes of a setting: each key of `ours` gets its value, translated by `choices`
    ("vanilla=ppo gspo=gspo") where there are some. A value without a choice, or a row without
    `ours`, is not carried, for the reason `remark`; without a remark the function of the trainer
    reads it. A remark on a carried value says how it differs. `default` is the trainer's. `changes`
    says what a run without the setting does, where that is another result; it is not reported for
    a value that is off or in `same`."""

    theirs: str
    ours: str = ""
    remark: str = ""
    choices: str = ""
    default: str = ""
    changes: str = ""
    same: str = ""


# verl 0.9: its ppo_trainer.yaml and the keys that recipes override.
VERL = [
    Row("data.train_files", "run.data.prompts"),
    Row("data.val_files", "run.data.held_out"),
    Row("data.custom_cls.path",
        changes="the dataset class is not called: prompts would be the rows as they are"),
    Row("data.image_key", changes="prompts are text: a model would see no images", same="images"),
    Row("data.val_max_samples"),
    Row("data.val_batch_size", remark="evaluations are batched by local.worker.max_running"),
    Row("data.prompt_key", "run.data.prompt_field", default="prompt"),
    Row("data.reward_fn_key", "run.data.source_field", default="data_source"),
    Row("data.max_prompt_length", "run.data.max_prompt_tokens", default="512"),
    Row("data.max_response_length", "run.sampling.max_tokens", default="512"),
    Row("data.train_batch_size", "run.batch.prompts", default="1024"),
    Row("data.gen_batch_size", remark="prompts are drawn one by one, as the step needs them"),
    Row("data.shuffle", "run.data.shuffle", choices=BOOL, default="true"),
    Row("data.seed", "run.seed"),
    Row("data.truncation", remark="prompts that are too long are refused at start, by line"),
    Row("data.filter_overlong_prompts", "run.data.over_long",
        choices="True=drop true=drop False=refuse false=refuse", default="false"),
    Row("actor_rollout_ref.model.path", "run.model.path"),
    Row("actor_rollout_ref.model.enable_gradient_checkpointing", "local.learner.recompute",
        choices=RECOMPUTE),
    Row("actor_rollout_ref.model.lora_rank", "run.lora.rank"),
    Row("actor_rollout_ref.model.lora_alpha", "run.lora.alpha"),
    Row("actor_rollout_ref.model.target_modules", changes=LORA_TARGETS, same="all-linear"),
    *(Row(MULTI_TURN + name) for name in (
        "enable", "max_assistant_turns", "max_user_turns", "max_parallel_calls", "format",
        "max_tool_response_length", "tool_response_truncate_side", "tool_config_path",
        "function_tool_path", "interaction_config_path")),
    Row("actor_rollout_ref.rollout.agent.default_agent_loop", default="single_turn_agent"),
    Row("actor_rollout_ref.rollout.agent.agent_loop_config_path"),
    Row("actor_rollout_ref.actor.ulysses_sequence_parallel_size", changes=NO_SEQUENCE_PARALLEL,
        same="1"),
    Row("actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size",
        changes=NO_SEQUENCE_PARALLEL, same="1"),
    Row("actor_rollout_ref.actor.fsdp_config.qat.enable",
        changes="weights are not quantized: training would not know of a later quantization"),
    Row("actor_rollout_ref.rollout.dtype", "run.model.dtype", remark="bfloat16 and float32 only",
        choices="bfloat16=bfloat16 bf16=bfloat16 float32=float32 fp32=float32", default="bfloat16"),
    Row("actor_rollout_ref.actor.fsdp_config.model_dtype",
        remark="the optimizer keeps float32 next to bfloat16 parameters (run.optim.precision)"),
    Row("actor_rollout_ref.actor.optim.lr", "run.optim.lr", default="1e-6"),
    Row("actor_rollout_ref.actor.optim.weight_decay", "run.optim.weight_decay",
        remark="here on matrices only", default="0.01"),
    Row("actor_rollout_ref.actor.optim.lr_warmup_steps", default="-1"),
    Row("actor_rollout_ref.actor.optim.lr_warmup_steps_ratio"),
    Row("actor_rollout_ref.actor.optim.lr_scheduler_type", "run.optim.schedule",
        choices="constant=constant cosine=cosine linear=linear", default="constant"),
    Row("actor_rollout_ref.actor.optim.warmup_style", "run.optim.schedule",
        choices="constant=constant cosine=cosine"),
    Row("actor_rollout_ref.actor.optim.min_lr_ratio", "run.optim.min_lr_ratio", default="0.0"),
    Row("actor_rollout_ref.actor.optim.betas", default="[0.9, 0.999]"),
    Row("actor_rollout_ref.actor.optim.clip_grad", "run.optim.clip_grad"),
    Row("actor_rollout_ref.actor.grad_clip", "run.optim.clip_grad", default="1.0"),
    Row("actor_rollout_ref.actor.clip_ratio", "run.algorithm.clip_low run.algorithm.clip_high",
        default="0.2"),
    Row("actor_rollout_ref.actor.clip_ratio_low", "run.algorithm.clip_low"),
    Row("actor_rollout_ref.actor.clip_ratio_high", "run.algorithm.clip_high"),
    Row("actor_rollout_ref.actor.clip_ratio_c", default="3.0"),
    Row("actor_rollout_ref.actor.policy_loss.loss_mode", "run.algorithm.loss",
        choices="vanilla=ppo gspo=gspo sapo=sapo cispo=cispo geo_mean=gmpo clip_cov=clip_cov "
                "kl_cov=kl_cov gpg=gpg dppo_tv=dppo_tv dppo_kl=dppo_kl", default="vanilla",
        changes="there is no such loss here; run.algorithm.loss is ppo instead"),
    Row("actor_rollout_ref.actor.loss_agg_mode", "run.algorithm.aggregation",
        choices="token-mean=token_mean seq-mean-token-mean=seq_mean_token_mean "
                "seq-mean-token-sum=seq_mean_token_sum "
                "seq-mean-token-sum-norm=seq_mean_token_sum_norm", default="token-mean"),
    Row("actor_rollout_ref.actor.entropy_coeff", "run.algorithm.entropy_coef", default="0"),
    Row("actor_rollout_ref.actor.use_kl_loss", default="false"),
    Row("actor_rollout_ref.actor.kl_loss_coef", default="0.001"),
    Row("actor_rollout_ref.actor.kl_loss_type", default="low_var_kl"),
    Row("actor_rollout_ref.actor.ppo_mini_batch_size", default="256"),
    Row("actor_rollout_ref.actor.ppo_epochs", "run.batch.epochs", default="1"),
    Row("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        remark="micro-batches are cut by tokens: local.learner.micro_batch_tokens"),
    Row("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "local.learner.micro_batch_tokens"),
    Row("actor_rollout_ref.actor.use_dynamic_bsz", remark="micro-batches are always cut by tokens"),
    Row("actor_rollout_ref.rollout.n", "run.sampling.group_size", default="1"),
    Row("actor_rollout_ref.rollout.temperature", "run.sampling.temperature", default="1.0"),
    Row("actor_rollout_ref.rollout.top_p", "run.sampling.top_p", default="1"),
    Row("actor_rollout_ref.rollout.top_k", "run.sampling.top_k", default="-1"),
    Row("actor_rollout_ref.rollout.val_kwargs.n", default="1"),
    Row("actor_rollout_ref.rollout.val_kwargs.do_sample", default="false"),
    Row("actor_rollout_ref.rollout.val_kwargs.temperature", default="0"),
    Row("actor_rollout_ref.rollout.val_kwargs.top_p", remark="evaluations sample from all tokens"),
    Row("actor_rollout_ref.rollout.val_kwargs.top_k", remark="evaluations sample from all tokens"),
    Row("actor_rollout_ref.rollout.name", remark=SERVERS),
    Row("actor_rollout_ref.rollout.gpu_memory_utilization", remark=SIZED_HERE),
    Row("actor_rollout_ref.rollout.tensor_model_parallel_size", remark=SIZED_HERE),
    Row("actor_rollout_ref.rollout.max_num_seqs", "local.worker.max_running"),
    Row("algorithm.adv_estimator", "run.algorithm.advantage",
        changes="there is no such estimator here; run.algorithm.advantage is grpo instead",
        choices="grpo=grpo rloo=rloo opo=opo gpg=gpg reinforce_plus_plus=reinforce_pp "
                "reinforce_plus_plus_baseline=reinforce_pp_baseline grpo_passk=pass_k gdpo=gdpo",
        default="gae"),
    Row("algorithm.norm_adv_by_std_in_grpo", default="true"),
    Row("algorithm.use_kl_in_reward", default="false"),
    Row("algorithm.kl_penalty", default="kl"),
    Row("algorithm.kl_ctrl.kl_coef", default="0.001"),
    Row("algorithm.kl_ctrl.type"),
    Row("algorithm.gamma", same="1 1.0",
        changes="rewards are not discounted: one counts for all tokens of its completion alike"),
    Row("algorithm.filter_groups.enable", "run.batch.zero_variance",
        choices="True=resample true=resample False=keep false=keep"),
    Row("algorithm.filter_groups.max_num_gen_batches"),
    Row("algorithm.filter_groups.metric", remark="groups with equal raw rewards are replaced"),
    Row("custom_reward_function.path"),
    Row("custom_reward_function.name"),
    Row("reward.custom_reward_function.path"),
    Row("reward.custom_reward_function.name"),
    Row("reward_model.enable", changes=NO_REWARD_MODEL),
    Row("reward.reward_model.enable", changes=NO_REWARD_MODEL),
    Row("reward_model.reward_manager"),
    Row("reward_model.overlong_buffer.enable"),
    Row("reward_model.overlong_buffer.len"),
    Row("reward_model.overlong_buffer.penalty_factor"),
    Row("trainer.total_training_steps", "run.steps"),
    Row("trainer.total_epochs", default="30"),
    Row("trainer.save_freq", default="-1"),
    Row("trainer.test_freq", default="-1"),
    Row("trainer.val_before_train", remark="launch evaluates before and after, unless --no-eval"),
    Row("trainer.max_actor_ckpt_to_keep"),
    Row("trainer.experiment_name", "run.name"),
    Row("trainer.project_name", remark="name the run in run.name"),
    Row("trainer.default_local_dir", "local.out"),
    Row("trainer.logger",
        remark="set local.track; measurements are in <out>/steps.jsonl and at /metrics"),
    Row("trainer.n_gpus_per_node", remark=SIZED_HERE),
    Row("trainer.nnodes", remark=SIZED_HERE),
]


# TRL 1.16: GRPOConfig, and the arguments of its script `trl grpo`.
TRL = [
    Row("model_name_or_path", "run.model.path",
        remark="a folder; names of the hub are not downloaded"),
    Row("dtype", "run.model.dtype", remark="bfloat16 and float32 only",
        choices="bfloat16=bfloat16 float32=float32 auto=bfloat16"),
    Row("bf16", "run.model.dtype",
        choices="True=bfloat16 true=bfloat16 False=float32 false=float32"),
    Row("fp16", remark="bfloat16 and float32 only: run.model.dtype"),
    Row("use_peft"),
    Row("lora_r", default="16"),
    Row("lora_alpha", default="32"),
    Row("lora_target_modules"),
    Row("lora_dropout", changes=NO_DROPOUT, same="0.0"),
    Row("use_rslora", "run.lora.rslora", choices=BOOL),
    Row("use_dora", changes="adapters have no magnitudes (DoRA)"),
    Row("deepspeed", changes=WHOLE_MODEL),
    Row("fsdp", changes=WHOLE_MODEL),
    Row("load_in_4bit", changes="weights are not quantized: run.model.dtype holds for all of them"),
    Row("load_in_8bit", changes="weights are not quantized: run.model.dtype holds for all of them"),
    Row("dataset_name", remark="set run.data.prompts to a file or folder of its rows"),
    Row("reward_funcs", remark="set run.reward.verifier: python:FILE:FUNCTION + ..."),
    Row("reward_weights", remark="write them in run.reward.verifier: 0.5 * python:FILE:FUNCTION"),
    Row("output_dir", "local.out"),
    Row("run_name", "run.name"),
    Row("seed", "run.seed", default="42"),
    Row("max_steps", default="-1"),
    Row("num_train_epochs", default="3.0"),
    Row("save_strategy", default="steps"),
    Row("save_steps"),
    Row("logging_steps", remark="every step is logged"),
    Row("report_to", "local.track.tensorboard", remark="set local.track",
        choices="tensorboard=true none=false"),
    Row("eval_strategy", default="no"),
    Row("eval_steps"),
    Row("num_generations_eval"),
    Row("save_total_limit"),
    Row("load_best_model_at_end", "run.checkpoints.keep_best",
        choices="True=1 true=1 False=0 false=0"),
    Row("learning_rate", "run.optim.lr", default="1e-6"),
    Row("optim", changes="the optimizer is AdamW, with its state in full precision",
        same="adamw_torch adamw_torch_fused adamw_hf"),
    Row("weight_decay", "run.optim.weight_decay", remark="here on matrices only", default="0.0"),
    Row("adam_beta1", "run.optim.beta1", default="0.9"),
    Row("adam_beta2", "run.optim.beta2", default="0.999"),
    Row("adam_epsilon", "run.optim.eps", default="1e-8"),
    Row("max_grad_norm", "run.optim.clip_grad", default="1.0"),
    Row("warmup_steps"),
    Row("warmup_ratio"),
    Row("lr_scheduler_type", "run.optim.schedule", remark="there is no such schedule here",
        choices="linear=linear cosine=cosine constant=constant constant_with_warmup=constant",
        default="linear"),
    Row("gradient_checkpointing", "local.learner.recompute", choices=RECOMPUTE),
    Row("per_device_train_batch_size", default="8"),
    Row("gradient_accumulation_steps", default="1"),
    Row("generation_batch_size"),
    Row("steps_per_generation"),
    Row("num_generations", "run.sampling.group_size", default="8"),
    Row("max_prompt_length", "run.data.max_prompt_tokens",
        remark="longer prompts are refused here and not cut; run.data.over_long: drop leaves them "
        "out"),
    Row("max_completion_length", "run.sampling.max_tokens", default="512"),
    Row("temperature", "run.sampling.temperature", default="1.0"),
    Row("top_p", "run.sampling.top_p", default="1.0"),
    Row("top_k", "run.sampling.top_k", default="0"),
    Row("min_p", remark="top_p and top_k only"),
    Row("repetition_penalty", same="1 1.0",
        changes="there is no penalty: completions would be sampled without it"),
    Row("shuffle_dataset", "run.data.shuffle", choices=BOOL, default="true"),
    Row("chat_template_kwargs", remark="set run.data.template_arguments"),
    Row("use_vllm", remark=SERVERS),
    Row("vllm_mode", remark=SERVERS),
    Row("vllm_server_host", remark=SERVERS),
    Row("vllm_server_port", remark=SERVERS),
    Row("vllm_server_base_url", remark=SERVERS),
    Row("vllm_gpu_memory_utilization", remark=SIZED_BY_VLLM),
    Row("vllm_tensor_parallel_size", remark=SIZED_BY_VLLM),
    Row("vllm_max_model_length", remark=SIZED_BY_VLLM),
    Row("vllm_importance_sampling_correction", remark="set run.algorithm.correction.mode: tis"),
    Row("vllm_importance_sampling_mode", remark="set run.algorithm.correction"),
    Row("vllm_importance_sampling_clip_max", "run.algorithm.correction.cap"),
    Row("beta", "run.algorithm.kl_coef", default="0.0"),
    Row("use_bias_correction_kl", remark="the KL is not weighted by the ratio"),
    Row("sync_ref_model", changes="the reference stays the start model: the KL would grow"),
    Row("num_iterations", "run.batch.epochs", default="1"),
    Row("epsilon", "run.algorithm.clip_low run.algorithm.clip_high", default="0.2"),
    Row("epsilon_high", "run.algorithm.clip_high"),
    Row("delta", "run.algorithm.dual_clip"),
    Row("importance_sampling_level", "run.algorithm.loss", remark="there is no such level here",
        choices="token=ppo sequence=gspo", default="token"),
    Row("loss_type", "run.algorithm.aggregation",
        changes="there is no such loss here; run.algorithm.loss is that of "
                "importance_sampling_level",
        choices="grpo=seq_mean_token_mean dapo=token_mean bnpo=token_mean "
                "dr_grpo=seq_mean_token_sum_norm luspo=seq_mean_token_sum cispo=token_mean "
                "sapo=seq_mean_token_mean",
        default="dapo"),
    Row("sapo_temperature_pos", "run.algorithm.sapo.tau_positive"),
    Row("sapo_temperature_neg", "run.algorithm.sapo.tau_negative"),
    Row("scale_rewards", "run.algorithm.advantage",
        remark="advantages are not scaled over the batch",
        choices="group=grpo True=grpo true=grpo none=dr_grpo False=dr_grpo false=dr_grpo",
        default="group"),
    Row("multi_objective_aggregation"),
    Row("mask_truncated_completions", "run.algorithm.overlong.filter", choices=BOOL),
    Row("top_entropy_quantile", same="1 1.0", changes="every token would be trained"),
    Row("entropy_coef", "run.algorithm.entropy_coef"),
    Row("use_adaptive_entropy", remark="set run.algorithm.adaptive_entropy"),
    *(Row(name) for name in ("max_tool_calling_iterations", "tools", "environment_factory",
                             "rollout_func")),
]

# Settings of theirs that change no result here: how their processes share memory and work, what
# they print, and where they upload.
NO_EFFECT = {
    "verl": r"(.*\.)?_target_|critic\..*|algorithm\.lam"
            r"|actor_rollout_ref\.model\.lora(\.|_dropout).*"
            r"|actor_rollout_ref\.rollout\.multi_turn\.(use_inference_chat_template"
            r"|tokenization_sanity_check_mode|num_repeat_rollouts)"
            r"|data\.(return_raw_chat|tool_config_path|function_tool_path)"
            r"|trainer\.(critic_warmup|max_critic_ckpt_to_keep|balance_batch|resume_mode|ray_.*"
            r"|log_val_generations|use_legacy_worker_impl|device)"
            r"|ray_kwargs\..*|ray_init\..*|global_profiler\..*|transfer_queue\..*"
            r"|data\.(dataloader_num_workers|filter_overlong_prompts_workers|trust_remote_code)"
            r"|actor_rollout_ref\.(hybrid_engine|nccl_timeout)"
            r"|actor_rollout_ref\.model\.(use_remove_padding|use_shm|use_fused_kernels"
            r"|trust_remote_code|use_liger|enable_activation_offload|external_lib)"
            r"|actor_rollout_ref\.(actor|ref)\.(strategy|use_torch_compile|.*profiler\..*"
            r"|fsdp_config\..*|checkpoint\..*|megatron\..*|log_prob_.*|.*entropy_checkpointing"
            r"|entropy_from_logits_.*)"
            r"|actor_rollout_ref\.rollout\.(mode|load_format|enforce_eager|free_cache_engine"
            r"|layered_summon|log_prob_.*|max_num_batched_tokens|enable_chunked_prefill"
            r"|enable_prefix_caching|disable_log_stats|.*parallel_size|agent\.num_workers"
            r"|checkpoint_engine\..*|trace\..*|prometheus\..*)",
    "trl": r"log_.*|logging_.*|num_completions_to_print|disable_tqdm|remove_unused_columns|do_.*"
           r"|push_to_hub|hub_.*|dataloader_.*|ddp_.*|fsdp_.*|ds3_gather_for_generation"
           r"|torch_compile.*|tf32|gradient_checkpointing_kwargs|trust_remote_code"
           r"|attn_implementation|overwrite_output_dir|per_device_eval_batch_size|eval_on_start"
           r"|vllm_(enable_sleep_mode|model_impl|server_timeout|group_port)|use_liger_.*"
           r"|use_cache|pad_to_multiple_of|average_tokens_across_devices|report_to_.*|local_rank",
}


class Settings(dict):
    """Settings of another trainer by dotted key, as text."""

    def text(self, key):
        return self.get(key, "")

    def number(self, key):
        found = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", self.text(key))
        return float(found[0]) if found else 0.0

    def whole(self, key):
        found = re.match(r"\s*[+-]?\d+", self.text(key))
        return int(found[0]) if found else 0

    def files(self, key):
        """The elements of a list, or the one text."""
        node = compose(self.text(key)) if self.text(key).startswith("[") else None
        return list(map(text_of, node.value)) if node else [self.text(key)]

    def is_true(self, key):
        return self.text(key) in ("true", "True")


def shown(number):
    return repr(float(number)).removesuffix(".0")


class Result:
    """Our settings, and what became of theirs that were not carried, or not exactly."""

    def __init__(self):
        self.ours, self.notes = {}, []
        self.lost = {}  # by heading and reason: the settings

    def changed(self, what, how):
        self.lost.setdefault(("changes the result", how), []).append(what)

    def not_carried(self, what, why):
        self.lost.setdefault(("not carried", why), []).append(what)

    def without_effect(self, what, why):
        self.lost.setdefault((why, ""), []).append(what)

    def lines(self):
        """What changes the result is first, and what means nothing here last. Settings with one
        reason are one line."""
        lines = [f"{heading}: {', '.join(whats)}" + (f": {why}" if why else "")
                 for (heading, why), whats in self.lost.items()]
        order = ("changes the result", "not carried")
        first = [line for heading in order for line in lines if line.startswith(heading)]
        return first + self.notes + [line for line in lines if line not in first]

    def nearest(self, what):
        self.notes.append(f"nearest: {what}")

    def keep_checkpoints(self, theirs, kept):
        self.ours["run.checkpoints.keep_last"] = str(max(kept, FEWEST_CHECKPOINTS))
        if kept < FEWEST_CHECKPOINTS:
            self.nearest(f"{theirs}: {kept} became run.checkpoints.keep_last {FEWEST_CHECKPOINTS}")

    def episodes(self, kind, turns):
        """Neither trainer bounds the number of calls."""
        self.ours["run.env.kind"] = kind
        self.ours["run.env.max_turns"] = str(min(turns, MOST_TURNS))
        self.ours["run.env.max_tool_calls"] = str(MOST_CALLS)

    def carry(self, row, value, is_default):
        if value in ("null", "None"):
            return
        what = f"{row.theirs}: {value}"
        if not row.ours and row.changes:
            if value.lower() not in OFF and value not in row.same.split():
                self.changed(what, row.changes)
            return
        if not row.ours:
            if not is_default and row.remark:
                self.not_carried(what, row.remark)
            return
        if row.choices:
            value = dict(choice.split("=") for choice in row.choices.split()).get(value)
        if value is None and row.changes:
            self.changed(what, row.changes)
            return
        if value is None:
            self.not_carried(what, row.remark or "there is no such choice")
            return
        for key in row.ours.split():
            self.ours[key] = value
        if not is_default and row.remark and not row.choices:
            self.notes.append(f"carried: {what}: {row.remark}")


def verl_files(theirs, result):
    """A list of files, which verl concatenates, becomes one file or a folder of Parquet files."""
    for key, ours in (("data.train_files", "run.data.prompts"),
                      ("data.val_files", "run.data.held_out")):
        paths = theirs.files(key)
        if ours not in result.ours:
            continue
        if len(paths) == 1:
            result.ours[ours] = paths[0]
            continue
        name = ours.rpartition(".")[2] + "_of_all_files"
        if all(path.endswith(".parquet") for path in paths):
            commands = [f"cp {shlex.quote(path)} {name}/train-{n:05}-of-{len(paths):05}.parquet"
                        for n, path in enumerate(paths)]
            make = " && ".join([f"mkdir {name}"] + commands)
        else:
            name += ".jsonl"
            make = f"cat {' '.join(map(shlex.quote, paths))} > {name}"
        result.ours[ours] = name
        result.nearest(f"{key}: {len(paths)} files became one, {name}; make it, next to the "
                       f"configuration, by: {make}")


def verl_arguments(theirs, result):
    """Carries reward_kwargs to run.reward.python.arguments: texts and JSON by name."""
    arguments = {}
    for key, value in theirs.items():
        found = KWARGS.match(key)
        if not found:
            continue
        *path, name = key[found.end():].split(".")
        inner = arguments
        for part in path:
            inner = inner.setdefault(part, {})
        inner[name] = yaml.safe_load(value)
    for name, value in arguments.items():
        result.ours[f"run.reward.python.arguments.{name}"] = (
            value if isinstance(value, str) else json.dumps(value))


def verl_kl(theirs, result):
    actor = "actor_rollout_ref.actor."
    in_reward = theirs.is_true("algorithm.use_kl_in_reward")
    if not in_reward and not theirs.is_true(actor + "use_kl_loss"):
        return
    if in_reward and theirs.text("algorithm.kl_ctrl.type") == "adaptive":
        result.not_carried("algorithm.kl_ctrl.type: adaptive", "the coefficient is constant")
    kind = theirs.text("algorithm.kl_penalty" if in_reward else actor + "kl_loss_type")
    coef = theirs.text("algorithm.kl_ctrl.kl_coef" if in_reward else actor + "kl_loss_coef")
    result.ours["run.algorithm.kl_in"] = "reward" if in_reward else "loss"
    result.ours["run.algorithm.kl_coef"] = coef
    result.ours["run.algorithm.kl_estimator"] = {
        "kl": "k1", "k1": "k1", "mse": "k2", "k2": "k2"}.get(kind, "k3")
    if kind == "abs":
        result.nearest("KL 'abs' became k3")


def verl_batches(theirs, result):
    batch = theirs.number("data.train_batch_size")
    mini = theirs.number("actor_rollout_ref.actor.ppo_mini_batch_size")
    updates = int((batch + mini - 1) / mini) if mini > 0 else 1
    result.ours["run.batch.updates"] = str(updates)
    if 0 < mini < batch and updates * mini != batch:
        result.nearest(f"{shown(batch)} prompts in mini-batches of {shown(mini)} became {updates} "
                       "updates of about equal size")
    cap = theirs.text("algorithm.filter_groups.max_num_gen_batches")
    if cap not in ("", "0"):
        result.ours["run.batch.resample.cap"] = cap
    if result.ours.get("run.batch.zero_variance") == "resample":
        result.ours["run.batch.denominator"] = "kept"


def verl_reward(theirs, result):
    for prefix in ("custom_reward_function.", "reward.custom_reward_function."):
        path, name = theirs.text(prefix + "path"), theirs.text(prefix + "name")
        if path:
            result.ours["run.reward.verifier"] = f"python:{path}:{name or 'compute_score'}"
            result.ours["run.reward.timeout_ms"] = DAY_MS  # verl has no limit
    if "run.reward.verifier" not in result.ours:
        result.ours["run.reward.verifier"] = "math"
        result.nearest("verl's function by data_source became the verifier math; name others in "
                       "run.reward.by_source")
    buffer = "reward_model.overlong_buffer."
    if theirs.is_true(buffer + "enable"):
        result.ours["run.algorithm.overlong.cache"] = theirs.text(buffer + "len")
        result.ours["run.algorithm.overlong.penalty"] = theirs.text(buffer + "penalty_factor")


def verl_steps(theirs, result):
    optim = "actor_rollout_ref.actor.optim."
    betas = re.match(r"\[([^,]*),(.*)\]", theirs.text(optim + "betas"))
    if betas:
        result.ours["run.optim.beta1"] = betas[1]
        result.ours["run.optim.beta2"] = betas[2].strip()
    if theirs.number(optim + "lr_warmup_steps") > 0:
        result.ours["run.optim.warmup_steps"] = theirs.text(optim + "lr_warmup_steps")
    elif theirs.number(optim + "lr_warmup_steps_ratio") > 0:
        share = theirs.number(optim + "lr_warmup_steps_ratio")
        total = theirs.number("trainer.total_training_steps")
        if total > 0:
            result.ours["run.optim.warmup_steps"] = str(int(share * total))
        else:
            result.changed(f"{optim}lr_warmup_steps_ratio: {shown(share)}",
                           "the number of steps is not known here, and there would be no warm-up; "
                           "set run.optim.warmup_steps to this share of the steps")
    if theirs.number("trainer.save_freq") > 0:
        result.ours["run.checkpoint_interval"] = theirs.text("trainer.save_freq")
    kept = "trainer.max_actor_ckpt_to_keep"
    if theirs.number(kept) > 0:
        result.keep_checkpoints(kept, int(theirs.number(kept)))
    if theirs.number("trainer.total_training_steps") <= 0:
        result.ours.pop("run.steps", None)
        result.ours["run.epochs"] = theirs.text("trainer.total_epochs")


def verl_evaluations(theirs, result):
    every = theirs.text("trainer.test_freq")
    if theirs.number("trainer.test_freq") <= 0:
        return
    if "run.data.held_out" not in result.ours:
        result.not_carried(f"trainer.test_freq: {every}", "there is no data.val_files; set "
                           "run.data.held_out and run.eval.every")
        return
    result.ours["run.eval.every"] = every
    if theirs.number("data.val_max_samples") > 0:
        result.ours["run.eval.prompts"] = theirs.text("data.val_max_samples")
    sampling = "actor_rollout_ref.rollout.val_kwargs."
    if theirs.is_true(sampling + "do_sample") and theirs.number(sampling + "temperature") > 0:
        result.ours["run.eval.samples"] = theirs.text(sampling + "n")
        result.ours["run.eval.temperature"] = theirs.text(sampling + "temperature")


def verl_turns(theirs, result):
    """A user turn of verl is the results of tools, behind which there is one more answer."""
    limits = [int(theirs.number(MULTI_TURN + name)) + more
              for name, more in (("max_assistant_turns", 0), ("max_user_turns", 1))
              if theirs.number(MULTI_TURN + name) > 0]
    result.episodes("builtin", min(limits, default=MOST_TURNS))
    if theirs.number(MULTI_TURN + "max_parallel_calls") > 0:
        result.nearest(f"{MULTI_TURN}max_parallel_calls: every call of an answer is made; "
                       "run.env.max_tool_calls bounds those of an episode")
    length = theirs.whole(MULTI_TURN + "max_tool_response_length") or 256
    result.ours["run.env.max_result_bytes"] = str(max(length, FEWEST_RESULT_BYTES))
    side = theirs.text(MULTI_TURN + "tool_response_truncate_side") or "middle"
    if side != "right":
        result.nearest(f"{MULTI_TURN}tool_response_truncate_side: {side}: what is beyond "
                       "run.env.max_result_bytes is cut off at the end")


def verl_episodes(theirs, result):
    agent = "actor_rollout_ref.rollout.agent."
    loop = theirs.text(agent + "default_agent_loop")
    loops = theirs.text(agent + "agent_loop_config_path")
    if loop not in ("single_turn_agent", "tool_agent"):
        result.episodes("exec", MOST_TURNS)
        result.changed(f"{agent}default_agent_loop: {loop}", "the agent loop is not called: "
                       + AGENT)
    elif loop == "tool_agent" or theirs.is_true(MULTI_TURN + "enable"):
        verl_turns(theirs, result)
    else:
        return
    if loops:
        result.not_carried(f"{agent}agent_loop_config_path: {loops}", AGENT)
    result.ours["run.env.max_tokens"] = theirs.text("data.max_response_length")
    form = theirs.text(MULTI_TURN + "format") or "hermes"
    if form in TOOL_FORMATS:
        result.ours["run.env.tool_format"] = TOOL_FORMATS[form]
    else:
        result.changed(f"{MULTI_TURN}format: {form}", "calls in this format are not found: "
                       "run.env.tool_format has hermes, llama, mistral, pythonic, qwen and glm")
    for name in ("tool_config_path", "function_tool_path"):
        if theirs.text(MULTI_TURN + name):
            result.changed(f"{MULTI_TURN}{name}: {theirs.text(MULTI_TURN + name)}", TOOLS)
    name = MULTI_TURN + "interaction_config_path"
    if theirs.text(name):
        result.changed(f"{name}: {theirs.text(name)}", "no user answers: " + AGENT)


def combine_verl(theirs, result):
    verl_files(theirs, result)
    verl_arguments(theirs, result)
    verl_kl(theirs, result)
    verl_batches(theirs, result)
    verl_reward(theirs, result)
    verl_steps(theirs, result)
    verl_evaluations(theirs, result)
    verl_episodes(theirs, result)
    ours = result.ours
    if ours.get("run.algorithm.loss") == "ppo":
        ours["run.algorithm.dual_clip"] = theirs.text("actor_rollout_ref.actor.clip_ratio_c")
    if (not theirs.is_true("algorithm.norm_adv_by_std_in_grpo")
            and ours.get("run.algorithm.advantage") == "grpo"):
        ours["run.algorithm.advantage"] = "dr_grpo"
    if theirs.number("actor_rollout_ref.rollout.top_k") < 0:
        ours["run.sampling.top_k"] = "0"
    ours.setdefault("run.algorithm.advantage", "grpo")
    ours["run.data.answer_field"] = "reward_model.ground_truth"
    ours["run.batch.max_age"] = "0"
    ours["run.algorithm.old_policy"] = "learner"
    result.ours = {key: value for key, value in ours.items() if value != ""}


def trl_batches(theirs, result):
    """TRL counts completions, of one process; a step of ours counts prompts and makes all updates
    between two generations."""
    device = theirs.whole("per_device_train_batch_size")
    accumulation = max(theirs.whole("gradient_accumulation_steps"), 1)
    completions = (theirs.whole("generation_batch_size")
                   or device * (theirs.whole("steps_per_generation") or accumulation))
    prompts = max(completions // max(theirs.whole("num_generations"), 1), 1)
    result.ours["run.batch.prompts"] = str(prompts)
    updates = max(completions // max(device * accumulation, 1), 1)
    result.ours["run.batch.updates"] = str(updates)
    result.ours["run.batch.mini_batch"] = "completions"
    result.nearest(f"{completions} completions of one process became run.batch.prompts {prompts}; "
                   "multiply it by the number of processes")
    return updates * max(theirs.whole("num_iterations"), 1)


def trl_step_count(theirs, key, ours, updates, result):
    """Sets `ours` to a number of TRL's steps, of which a step of ours makes `updates`. TRL reads a
    number below 1 as a share of all steps, which are known where `max_steps` is set."""
    count = theirs.number(key)
    if count <= 0:
        return
    if count < 1 and theirs.number("max_steps") <= 0:
        result.not_carried(f"{key}: {theirs.text(key)}", f"it is a share of all steps; set {ours}")
        return
    if count < 1:
        count = math.ceil(count * theirs.number("max_steps"))
    steps = math.ceil(count / updates)
    result.ours[ours] = str(steps)
    if updates > 1:
        result.nearest(f"{key}: {shown(count)} optimizer steps became {ours} {steps}, as a step "
                       f"makes {updates} of them")


def trl_lora(theirs, result):
    if not theirs.is_true("use_peft"):
        return
    result.ours["run.lora.rank"] = theirs.text("lora_r")
    result.ours["run.lora.alpha"] = theirs.text("lora_alpha")
    targets = theirs.text("lora_target_modules")
    if targets not in ("", "all-linear"):
        result.not_carried(f"lora_target_modules: {targets}", LORA_TARGETS)


def trl_length(theirs, updates, result):
    trl_step_count(theirs, "max_steps", "run.steps", updates, result)
    if "run.steps" in result.ours:
        return
    epochs = theirs.number("num_train_epochs")
    passes = max(math.ceil(epochs), 1)
    result.ours["run.epochs"] = str(passes)
    if passes != epochs:
        result.nearest(f"num_train_epochs: {theirs.text('num_train_epochs')} became run.epochs "
                       f"{passes}")


def trl_evaluations(theirs, updates, result):
    strategy = theirs.text("eval_strategy")
    if strategy == "no":
        return
    if strategy == "steps":
        trl_step_count(theirs, "eval_steps", "run.eval.every", updates, result)
    if "run.eval.every" not in result.ours:
        result.not_carried(f"eval_strategy: {strategy}", "set run.eval.every")
        return
    result.nearest("the evaluations are of the prompts that run.data.held_out names, greedy unless "
                   "run.eval.temperature says otherwise")
    samples = theirs.whole("num_generations_eval")
    if samples >= 2:
        result.ours["run.eval.samples"] = str(samples)
        result.ours["run.eval.temperature"] = theirs.text("temperature")


def trl_checkpoints(theirs, updates, result):
    strategy = theirs.text("save_strategy")
    if strategy == "steps":
        trl_step_count(theirs, "save_steps", "run.checkpoint_interval", updates, result)
    else:
        result.not_carried(f"save_strategy: {strategy}",
                           "a checkpoint is written every run.checkpoint_interval steps")
    best = 1 if result.ours.get("run.checkpoints.keep_best") == "1" else 0
    limit = theirs.whole("save_total_limit")  # it includes the best one
    if limit > 0:
        result.keep_checkpoints("save_total_limit", limit - min(best, limit - 1))


def trl_episodes(theirs, result):
    """Tools, environments and rollout functions are arguments of GRPOTrainer, which a file of
    settings may name."""
    rounds = theirs.whole("max_tool_calling_iterations")
    named = [name for name in ("environment_factory", "rollout_func") if theirs.text(name)]
    tools = theirs.text("tools")
    if not (rounds or tools or named):
        return
    result.episodes("exec" if named else "builtin", rounds + 1 if rounds > 0 else MOST_TURNS)
    result.ours["run.env.max_tokens"] = theirs.text("max_completion_length")
    result.ours["run.env.max_result_bytes"] = str(LONGEST_RESULT)
    for name in named:
        result.changed(f"{name}: {theirs.text(name)}", "it is not called: " + AGENT)
    if tools or not named:
        result.changed(f"tools: {tools or 'those given to GRPOTrainer'}", TOOLS)


def combine_trl(theirs, result):
    updates = trl_batches(theirs, result)
    trl_length(theirs, updates, result)
    trl_lora(theirs, result)
    trl_evaluations(theirs, updates, result)
    trl_checkpoints(theirs, updates, result)
    trl_episodes(theirs, result)
    warmup = "warmup_steps" if theirs.number("warmup_steps") > 0 else "warmup_ratio"
    trl_step_count(theirs, warmup, "run.optim.warmup_steps", updates, result)
    loss = theirs.text("loss_type")
    if loss in ("cispo", "sapo"):
        result.ours["run.algorithm.loss"] = loss
    if loss == "bnpo":
        result.nearest("loss_type: bnpo: the mean is over the tokens of the update, not of a "
                       "micro-batch")
    if theirs.text("multi_objective_aggregation") == "normalize_then_sum":
        result.ours["run.algorithm.advantage"] = "gdpo"
    if theirs.whole("top_k") < 0:
        result.ours["run.sampling.top_k"] = "0"
    result.ours.update({
        "run.algorithm.eps": "1e-4", "run.optim.min_lr_ratio": "0", "run.batch.max_age": "0",
        "run.algorithm.old_policy": "learner", "run.reward.verifier": "math",
        "run.reward.timeout_ms": DAY_MS})  # TRL has no limit
    result.nearest("reward functions are Python objects in TRL; run.reward.verifier is math until "
                   "you name yours: python:FILE:FUNCTION")


SOURCES = {"verl": (VERL, combine_verl), "trl": (TRL, combine_trl)}


def is_null(node):
    return node.style is None and node.value in ("", "~", "null", "Null", "NULL")


def text_of(node):
    if isinstance(node, yaml.ScalarNode):
        return "null" if is_null(node) else node.value
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(map(text_of, node.value)) + "]"
    return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in node.value) + "}"


def flatten(node, path, level, flat):
    if not isinstance(node, yaml.MappingNode) or level == MOST_LEVELS:
        flat[path] = text_of(node) if node is not None else "null"
        return
    for key, value in node.value:
        name = text_of(key)
        flatten(value, f"{path}.{name}" if path else name, level + 1, flat)


def compose(text):
    return yaml.compose(text, Loader=yaml.BaseLoader)


def read(text, overrides):
    """Settings of YAML or JSON with `overrides` ("a.b=1", also with Hydra's plus signs). Resolves
    ${a.b} where a.b is in the file. ValueError for what is none."""
    flat = Settings()
    try:
        node = compose(text)
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("expected a mapping of settings")
        flatten(node, "", 0, flat)
        for word in overrides:
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"'{word}': expected KEY=VALUE")
            flatten(compose(value), key.lstrip("+"), 0, flat)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for _ in range(MOST_REFERENCES):
        for key, value in flat.items():
            if value.startswith("${") and value.endswith("}"):
                flat[key] = flat.get(value[2:-1], value)
    return flat


def translate(source, theirs):
    """Never fails: every setting of `theirs` is carried over or named in a line."""
    rows, combine = SOURCES[source]
    known = {row.theirs for row in rows}
    every = Settings({row.theirs: row.default for row in rows if row.default})
    result = Result()
    for key, value in sorted(theirs.items()):
        if value != "null":
            every[key] = value
        if not key or key in known or (source == "verl" and KWARGS.match(key)):
            continue
        if re.fullmatch(NO_EFFECT[source], key):
            result.without_effect(f"{key}: {value}", "no effect here")
        elif value == "null" or value.lower() in OFF:
            result.without_effect(f"{key}: {value}", "not known here, and off")
        else:
            result.not_carried(f"{key}: {value}", "this setting is not known here")
    for row in rows:  # in the order of the table, so that a later row refines an earlier one
        if row.theirs in every:
            result.carry(row, every[row.theirs], row.theirs not in theirs)
    combine(every, result)
    return result


def scalar(value):
    plain = re.fullmatch(r"[\w./+-]([^\x00-\x1f#:]|:(?=\S)|(?<=\S)#)*(?<! )", value)
    is_plain = plain and not is_null(yaml.ScalarNode("", value)) and not re.match(r"-( |$)", value)
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def to_yaml(ours):
    lines, open_path = [], []
    for key, value in sorted(ours.items(), key=lambda entry: entry[0].split(".")):
        *path, name = key.split(".")
        for level, part in enumerate(path):
            if open_path[:level + 1] != path[:level + 1]:
                lines.append("  " * level + part + ":")
                open_path = path[:level + 1]
        open_path = path
        lines.append("  " * len(path) + f"{name}: {scalar(value)}")
    return "\n".join(lines) + "\n"


def main(source, path, *overrides):
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        theirs = read(content.decode(), overrides)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        print(f"{path}: {why}", end="")
        sys.exit(1)
    result = translate(source, theirs)
    for line in result.lines():
        print(line, file=sys.stderr)
    print(to_yaml(result.ours), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
