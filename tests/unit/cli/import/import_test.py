"""`buttress import` carries the settings of verl and TRL. import_test.py BUTTRESS"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUTTRESS = sys.argv.pop(1)
spec = importlib.util.spec_from_file_location("program", ROOT / "cli/import/import.py")
program = importlib.util.module_from_spec(spec)
sys.modules["program"] = program
spec.loader.exec_module(program)

# A run as DAPO's recipe has it.
DAPO = """
data:
  train_files: train.jsonl
  max_prompt_length: 2048
  max_response_length: 20480
  train_batch_size: 512
actor_rollout_ref:
  model: {path: model}
  actor:
    clip_ratio_low: 0.2
    clip_ratio_high: 0.28
    clip_ratio_c: 10.0
    loss_agg_mode: token-mean
    ppo_mini_batch_size: 32
    use_kl_loss: false
    optim: {lr: 1e-6, lr_warmup_steps: 10, weight_decay: 0.1}
  rollout: {n: 16, temperature: 1.0, top_p: 1.0, top_k: -1, gpu_memory_utilization: 0.8}
algorithm:
  adv_estimator: grpo
  filter_groups: {enable: True, max_num_gen_batches: 10, metric: acc}
custom_reward_function: {path: rewards.py, name: compute_score}
reward_model:
  overlong_buffer: {enable: True, len: 4096, penalty_factor: 1.0}
trainer: {total_training_steps: 300, save_freq: 5, secret_of_mine: 1}
"""


def run(source, text, *overrides):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return subprocess.run([BUTTRESS, "import", source, file.name, *overrides],
                              capture_output=True, text=True, check=False)


def imported(source, text, *overrides):
    """Our settings, and what was said about theirs."""
    ended = run(source, text, *overrides)
    assert ended.returncode == 0, ended.stderr
    return program.read(ended.stdout, []), ended.stderr


class ImportTest(unittest.TestCase):
    def test_adapters_are_carried(self):
        verl = "actor_rollout_ref: {model: {path: m, lora_rank: 32, lora_alpha: 64%s}}"
        ours, said = imported("verl", verl % "")
        self.assertEqual((ours["run.lora.rank"], ours["run.lora.alpha"]), ("32", "64"))
        self.assertNotIn("run.lora", said)
        _, said = imported("verl", verl % ", target_modules: '[q_proj]'")
        self.assertIn("set run.lora.targets", said)
        ours, said = imported("trl", "use_peft: true\nlora_r: 8\nlora_target_modules: all-linear\n")
        self.assertEqual((ours["run.lora.rank"], ours["run.lora.alpha"]), ("8", "32"))
        self.assertNotIn("run.lora", said)
        ours, _ = imported("trl", "use_peft: false\nlora_r: 8\n")
        self.assertNotIn("run.lora.rank", ours)

    def expect(self, ours, expected):
        self.assertEqual({key: ours.get(key) for key in expected}, expected)

    def test_verl_the_settings_of_dapo_are_carried(self):
        ours, notes = imported("verl", DAPO)
        self.expect(ours, {
            "run.sampling.group_size": "16",
            "run.sampling.max_tokens": "20480",
            "run.sampling.top_k": "0",
            "run.batch.prompts": "512",
            "run.batch.updates": "16",
            "run.batch.zero_variance": "resample",
            "run.batch.denominator": "kept",
            "run.batch.resample.cap": "10",
            "run.batch.max_age": "0",
            "run.algorithm.advantage": "grpo",
            "run.algorithm.clip_low": "0.2",
            "run.algorithm.clip_high": "0.28",
            "run.algorithm.dual_clip": "10.0",
            "run.algorithm.aggregation": "token_mean",
            "run.algorithm.overlong.cache": "4096",
            "run.optim.beta2": "0.999",
            "run.optim.warmup_steps": "10",
            "run.optim.weight_decay": "0.1",
            "run.reward.verifier": "python:rewards.py:compute_score",
            "run.data.answer_field": "reward_model.ground_truth",
            "run.checkpoint_interval": "5",
            "run.steps": "300",
            "run.epochs": None,
            "run.algorithm.kl_coef": None})
        self.assertIn("not carried: trainer.secret_of_mine: 1: this setting is not known here\n",
                      notes)
        self.assertIn("gpu_memory_utilization: 0.8: processes and", notes)

    def test_verl_overrides_references_and_kl_are_read(self):
        ours, _ = imported(
            "verl", "data: {max_prompt_length: 100, max_response_length: '${data.x}', x: 77}",
            "algorithm.adv_estimator=rloo", "+actor_rollout_ref.actor.use_kl_loss=True",
            "actor_rollout_ref.actor.kl_loss_coef=0.02", "data.max_prompt_length=200")
        self.expect(ours, {
            "run.sampling.max_tokens": "77",
            "run.data.max_prompt_tokens": "200",
            "run.algorithm.advantage": "rloo",
            "run.algorithm.kl_coef": "0.02",
            "run.algorithm.kl_estimator": "k3",
            "run.algorithm.kl_in": "loss"})

    def test_verl_epochs_evaluations_and_checkpoints_are_carried(self):
        text = """
data: {val_files: test.jsonl, val_max_samples: 200}
actor_rollout_ref: {rollout: {val_kwargs: {n: 4, do_sample: True, temperature: 0.6}}}
trainer: {total_epochs: 3, test_freq: 20, max_actor_ckpt_to_keep: 5}
"""
        ours, _ = imported("verl", text)
        self.expect(ours, {
            "run.epochs": "3",
            "run.eval.every": "20",
            "run.eval.prompts": "200",
            "run.eval.samples": "4",
            "run.eval.temperature": "0.6",
            "run.checkpoints.keep_last": "5",
            "run.steps": None})
        greedy, _ = imported("verl", text, "actor_rollout_ref.rollout.val_kwargs.do_sample=False")
        self.expect(greedy, {"run.eval.every": "20", "run.eval.samples": None})
        bare, notes = imported(
            "verl", "{trainer: {test_freq: 5, max_actor_ckpt_to_keep: 1, total_epochs: 15}}")
        self.expect(bare, {"run.eval.every": None, "run.checkpoints.keep_last": "2"})
        self.assertIn("trainer.test_freq: 5: there is no data.val_files", notes)
        self.assertIn("max_actor_ckpt_to_keep: 1 became", notes)

    def test_verl_without_division_by_std_grpo_is_dr_grpo_and_a_critic_is_named(self):
        text = "algorithm: {norm_adv_by_std_in_grpo: false}"
        ours, _ = imported("verl", text, "algorithm.adv_estimator=grpo")
        self.expect(ours, {"run.algorithm.advantage": "dr_grpo"})
        critic, notes = imported("verl", text, "algorithm.adv_estimator=gae")
        self.expect(critic, {"run.algorithm.advantage": "grpo"})
        self.assertTrue(notes.startswith(
            "changes the result: algorithm.adv_estimator: gae: there is no such estimator here; "
            "run.algorithm.advantage is grpo instead\n"), notes)

    def test_verl_lists_of_files_and_arguments_of_the_reward_are_carried(self):
        ours, notes = imported("verl", """
data: {train_files: [/d/a.jsonl, /d/b c.jsonl], val_files: [/d/v.jsonl]}
algorithm: {adv_estimator: grpo}
custom_reward_function:
  {path: r.py, reward_kwargs: {alpha: 0.5, strict: True, form: short, inner: {k: 1}}}
""")
        self.expect(ours, {
            "run.data.prompts": "prompts_of_all_files.jsonl",
            "run.data.held_out": "/d/v.jsonl",
            "run.reward.python.arguments.alpha": "0.5",
            "run.reward.python.arguments.strict": "true",
            "run.reward.python.arguments.form": "short",
            "run.reward.python.arguments.inner": '{"k": 1}',
            "run.reward.timeout_ms": "86400000"})
        self.assertIn("cat /d/a.jsonl '/d/b c.jsonl' > prompts_of_all_files.jsonl\n", notes)
        self.assertNotIn("not known here", notes)
        _, notes = imported("verl", "data: {train_files: [a.parquet, b.parquet]}")
        self.assertIn("cp b.parquet prompts_of_all_files/train-00001-of-00002.parquet\n", notes)

    def test_what_changes_the_result_is_first_and_what_means_nothing_is_one_line(self):
        _, notes = imported("verl", """
data: {my_own: 3}
algorithm: {adv_estimator: grpo}
actor_rollout_ref:
  actor: {ulysses_sequence_parallel_size: 2, fsdp_config: {param_offload: False}}
  rollout: {multi_turn: {enable: True, function_tool_path: t.py}, enforce_eager: True}
trainer: {critic_warmup: 0, something: False}
""")
        lines = notes.splitlines()
        for line, what in zip(lines[:2], ("sequences are not split", "function_tool_path: t.py: "
                                          "they are not called")):
            self.assertTrue(line.startswith("changes the result: "), notes)
            self.assertIn(what, line)
        self.assertIn(
            "no effect here: actor_rollout_ref.actor.fsdp_config.param_offload: False, "
            "actor_rollout_ref.rollout.enforce_eager: True, trainer.critic_warmup: 0", lines)
        self.assertIn("not known here, and off: trainer.something: False", lines)
        self.assertIn("not carried: data.my_own: 3: this setting is not known here", lines)
        off = imported("verl", "actor_rollout_ref: {rollout: {multi_turn: {enable: False}}, actor: "
                       "{ulysses_sequence_parallel_size: 1}}", "algorithm.adv_estimator=grpo")[1]
        self.assertNotIn("CHANGES", off)

    def test_verl_turns_and_tools_are_carried(self):
        tools = "{data: {max_response_length: 900}, actor_rollout_ref: {rollout: {%s}}}"
        ours, notes = imported("verl", tools % "multi_turn: {enable: True, max_user_turns: 3, "
                               "max_assistant_turns: 5, max_tool_response_length: 32, "
                               "tool_config_path: tools.yaml, max_parallel_calls: 1}",
                               "algorithm.adv_estimator=grpo")
        self.expect(ours, {
            "run.env.kind": "builtin",
            "run.env.max_turns": "4",
            "run.env.max_tokens": "900",
            "run.env.max_tool_calls": "65536",
            "run.env.max_result_bytes": "64",
            "run.env.tool_format": "hermes",
            "run.sampling.max_tokens": "900"})
        self.assertIn("tool_config_path: tools.yaml: they are not called: run.env.tools has", notes)
        self.assertIn("max_parallel_calls: every call of an answer is made", notes)
        self.assertNotIn("run.env.", notes.partition("settings that cannot be used")[2])
        ours, _ = imported("verl", tools % "multi_turn: {format: qwen3_coder}",
                           "+actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent")
        self.expect(ours, {"run.env.kind": "builtin", "run.env.tool_format": "qwen"})
        ours, notes = imported("verl", tools % "multi_turn: {format: gpt-oss}",
                               "+actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent")
        self.expect(ours, {"run.env.kind": "builtin", "run.env.max_turns": "4096",
                           "run.env.tool_format": None})
        self.assertIn("format: gpt-oss: calls in this format are not found", notes)
        ours, notes = imported("verl", tools % "agent: {default_agent_loop: react, "
                               "agent_loop_config_path: a.yaml}")
        self.expect(ours, {"run.env.kind": "exec"})
        self.assertIn("default_agent_loop: react: the agent loop is not called: make it a program "
                      "of run.env.kind: exec", notes)
        self.assertIn("agent_loop_config_path: a.yaml: make it a program", notes)
        for text in ("", "multi_turn: {enable: False, max_user_turns: 3, format: hermes}"):
            ours, notes = imported("verl", tools % text)
            self.assertFalse([key for key in ours if key.startswith("run.env.")])
            self.assertNotIn("multi_turn", notes)

    def test_trl_tools_and_environments_are_carried(self):
        ours, notes = imported("trl", "{max_tool_calling_iterations: 4}")
        self.expect(ours, {"run.env.kind": "builtin", "run.env.max_turns": "5",
                           "run.env.max_tokens": "512", "run.env.max_result_bytes": "16777216"})
        self.assertIn("tools: those given to GRPOTrainer: they are not called", notes)
        ours, notes = imported("trl", "{environment_factory: my.Env, max_completion_length: 64}")
        self.expect(ours, {"run.env.kind": "exec", "run.env.max_turns": "4096",
                           "run.env.max_tokens": "64"})
        self.assertIn("environment_factory: my.Env: it is not called: make it a program", notes)
        self.expect(imported("trl", "{max_tool_calling_iterations: null}")[0],
                    {"run.env.kind": None})

    def test_shares_of_a_known_number_of_steps_are_carried(self):
        trl, notes = imported("trl", "{max_steps: 101, warmup_ratio: 0.1, max_prompt_length: 700}")
        self.expect(trl, {"run.optim.warmup_steps": "11", "run.data.max_prompt_tokens": "700",
                          "run.reward.timeout_ms": "86400000"})
        self.assertIn("longer prompts are refused here and not cut", notes)
        text = "{actor_rollout_ref: {actor: {optim: {lr_warmup_steps_ratio: 0.1}}}}"
        verl, _ = imported("verl", text, "trainer.total_training_steps=300")
        self.expect(verl, {"run.optim.warmup_steps": "30"})
        _, notes = imported("verl", text)
        self.assertIn("lr_warmup_steps_ratio: 0.1: the number of steps is not known here", notes)

    def test_trl_losses_scales_and_batches_are_carried(self):
        ours, notes = imported("trl", """{
          "output_dir": "out", "per_device_train_batch_size": 16, "num_generations": 8,
          "gradient_accumulation_steps": 4, "steps_per_generation": 8, "beta": 0.04,
          "loss_type": "dr_grpo", "scale_rewards": false, "importance_sampling_level": "sequence",
          "epsilon": 0.0003, "epsilon_high": 0.0004, "max_steps": 100, "top_k": -1, "min_p": 0.1,
          "optim": "adafactor"}""")
        self.expect(ours, {
            "run.batch.prompts": "16",
            "run.batch.updates": "2",
            "run.algorithm.advantage": "dr_grpo",
            "run.algorithm.aggregation": "seq_mean_token_sum_norm",
            "run.algorithm.loss": "gspo",
            "run.algorithm.clip_low": "0.0003",
            "run.algorithm.clip_high": "0.0004",
            "run.algorithm.kl_coef": "0.04",
            "run.sampling.group_size": "8",
            "run.optim.schedule": "linear",
            "run.steps": "50"})
        for note in ("not carried: min_p: 0.1: top_p and top_k only\n",
                     "nearest: max_steps: 100 optimizer steps became run.steps 50, as a step makes "
                     "2 of them\n",
                     "changes the result: optim: adafactor: the optimizer is AdamW"):
            self.assertIn(note, notes)
        _, notes = imported("trl", "{deepspeed: z3.json, optim: adamw_torch, odd: 1, strange: x}")
        self.assertTrue(notes.startswith("changes the result: deepspeed: z3.json: "), notes)
        self.assertIn("not carried: odd: 1, strange: x: this setting is not known here\n", notes)
        self.assertNotIn("adamw", notes)

    def test_losses_that_do_not_exist_here_change_the_result(self):
        why = "there is no such loss here; run.algorithm.loss is"
        trl, notes = imported("trl", "{loss_type: vespo}")
        self.expect(trl, {"run.algorithm.loss": "ppo", "run.algorithm.aggregation": None})
        changed = f"changes the result: loss_type: vespo: {why} that of "
        self.assertTrue(notes.startswith(changed), notes)
        mode = "actor_rollout_ref.actor.policy_loss.loss_mode"
        verl, notes = imported("verl", "algorithm: {adv_estimator: grpo}", f"{mode}=dro")
        self.expect(verl, {"run.algorithm.loss": None})
        changed = f"changes the result: {mode}: dro: {why} ppo instead"
        self.assertTrue(notes.startswith(changed), notes)
        luspo, _ = imported("trl", "{loss_type: luspo, importance_sampling_level: sequence}")
        self.expect(luspo, {"run.algorithm.loss": "gspo",
                            "run.algorithm.aggregation": "seq_mean_token_sum"})

    def test_trl_epochs_evaluations_and_checkpoints_are_carried(self):
        ours, notes = imported("trl", """
{num_train_epochs: 1.5, eval_strategy: steps, eval_steps: 25, num_generations_eval: 4,
 temperature: 0.7, save_steps: 50, save_total_limit: 4, load_best_model_at_end: true,
 num_iterations: 2, warmup_steps: 0.1}
""")
        self.expect(ours, {
            "run.epochs": "2",
            "run.eval.every": "13",
            "run.eval.samples": "4",
            "run.eval.temperature": "0.7",
            "run.checkpoint_interval": "25",
            "run.checkpoints.keep_last": "3",
            "run.checkpoints.keep_best": "1",
            "run.steps": None,
            "run.optim.warmup_steps": None})
        for note in ("nearest: num_train_epochs: 1.5 became run.epochs 2\n",
                     "not carried: warmup_steps: 0.1: it is a share of all steps; set "
                     "run.optim.warmup_steps\n", "prompts that run.data.held_out names"):
            self.assertIn(note, notes)

    def test_trl_without_their_strategy_nothing_is_evaluated(self):
        ours, _ = imported("trl", "{eval_steps: 25, max_steps: 10}")
        self.expect(ours, {"run.eval.every": None, "run.epochs": None})
        epoch, notes = imported("trl", "{eval_strategy: epoch, save_strategy: epoch}")
        self.expect(epoch, {"run.epochs": "3"})
        self.assertIn("not carried: eval_strategy: epoch: set run.eval.every\n", notes)
        self.assertIn("not carried: save_strategy: epoch", notes)

    def test_defaults_are_those_of_the_trainer(self):
        self.expect(imported("trl", "{report_to: tensorboard}")[0],
                    {"run.sampling.max_tokens": "512", "local.track.tensorboard": "true"})
        self.expect(imported("verl", "{}")[0], {"run.data.over_long": "refuse"})
        self.expect(imported("verl", "{data: {filter_overlong_prompts: True}}")[0],
                    {"run.data.over_long": "drop"})

    def test_the_result_is_a_valid_configuration(self):
        self.assertNotIn("to be fixed before it runs", imported("verl", DAPO)[1])
        _, notes = imported("trl", "{loss_type: grpo}")
        problems = notes.partition("the result: settings that cannot be used:\n")[2]
        self.assertEqual([line.split()[0] for line in problems.splitlines()],
                         ["run.model.path", "run.data.prompts"])  # TRL's file has neither

    def test_texts_of_any_kind_are_quoted_where_yaml_needs_it(self):
        for text in ('# a "b" \u00e4', "a: b", "a:b", "", "null", "- x", "[1]", "a #b", "\\n "):
            self.assertEqual(program.read(program.to_yaml({"run.name": text}), []),
                             {"run.name": text})

    def test_every_key_of_the_tables_is_a_setting(self):
        described = (ROOT / "docs/configuration.md").read_text()
        for rows, _ in program.SOURCES.values():
            for key in " ".join(row.ours for row in rows).split():
                section, _, name = key.rpartition(".")
                text = described.partition(f"## `{section}`\n")[2].partition("\n## ")[0]
                self.assertIn(f"| `{name}` |", text, key)

    def test_names_what_it_cannot_read(self):
        for text, override, why in (("[1, 2]", "a=1", "expected a mapping of settings"),
                                    ("{a: ", "a=1", "line 1"),
                                    ("{}", "a.b", "'a.b': expected KEY=VALUE")):
            ended = run("verl", text, override)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertIn(why, ended.stderr)
        missing = subprocess.run([BUTTRESS, "import", "trl", "/nowhere"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(missing.stderr, "buttress: /nowhere: No such file or directory\n")


if __name__ == "__main__":
    unittest.main()
