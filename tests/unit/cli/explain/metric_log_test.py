"""metric_log.py finds the collapse rate in the logs of other trainers."""

import importlib.util
import json
import pathlib
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[4] / "cli/explain/metric_log.py"
spec = importlib.util.spec_from_file_location("metric_log", PROGRAM)
metric_log = importlib.util.module_from_spec(spec)
spec.loader.exec_module(metric_log)


class MetricLogTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def rates(self, text):
        """The rates of a log whose text is `text`."""
        log = metric_log.read(self.write("a.log", text + "\n"))
        return [point["acr"] for point in log.points] if log else []

    def test_each_trainer_has_its_names(self):
        for text, rate in (
                ('{"step": 1, "frac_reward_zero_std": 0.25}', 0.25),
                ('{"train/frac_reward_zero_std": 0.25, "_step": 1}', 0.25),
                ("{'loss': 0.1, 'frac_reward_zero_std': '0.5', 'epoch': 0.1}", 0.5),
                ("Global step 3: {'reward': 0.5, 'dynamic_filtering_pass_rate': 75.0}", 0.25),
                ('{"step": 2, "data": {"training/n_groups": 8, "training/n_zero_adv_groups": 2}}',
                 0.25),
                ("(TaskRunner pid=7) step:2 - training/n_groups:8 - actor/lr:1e-06 - "
                 "training/n_zero_adv_groups:np.float64(6.0)", 0.75),
                ('{"env/all/by_group/frac_mixed": 0.3, "env/all/by_group/frac_all_bad": 0.6, '
                 '"env/all/by_group/frac_all_good": 0.1}', 0.7),
                ('{"baseline_reward/pct_0": 20.0, "baseline_reward/pct_1": 30.0, '
                 '"baseline_reward/pct_mixed": 50.0}', 0.5),
                ("rollout 3: {'rollout/zero_std/all_zero_percentage': 0.5, "
                 "'rollout/zero_std/all_one_percentage': 0.25, 'rollout/zero_std/count_0.5': 1}",
                 0.75),
                ('{"solved_none": 0.5, "solved_all": 0.25}', 0.75)):
            self.assertEqual(self.rates(text), [rate], text)
        self.assertEqual(self.rates("{'eval/aime/zero_std/all_zero_percentage': 0.5, "
                                    "'eval/aime/zero_std/all_one_percentage': 0.25}"), [])
        self.assertEqual(self.rates('{"eval_frac_reward_zero_std": 0.25}'), [])

    def test_what_is_not_finite_is_named_with_its_line(self):
        for text, first in (
                ('{"step": 1, "solved_all": 0.5, "solved_none": 0.5, "kl": 1}\n'
                 '{"step": 2, "solved_all": 0.5, "solved_none": 0.5, "kl": NaN}', "line 2"),
                ("step:1 - solved_all:0.5 - solved_none:0.5 - kl:nan", "line 1"),
                ("{'solved_all': 0.5, 'solved_none': 0.5, 'kl': -inf, 'info': 'infer'}", "line 1")):
            log = metric_log.read(self.write("a.log", text + "\n"))
            self.assertEqual(log.lost, {"kl": (1, first)})
            self.assertIn(f"note: kl is NaN or infinite in 1 line, the first {first}: left out",
                          metric_log.as_text(log))
        state = '{"log_history": [{"step": 1, "frac_reward_zero_std": 0.5, "reward": NaN}]}'
        log = metric_log.read(self.write("trainer_state.json", state))
        self.assertEqual(log.lost, {"reward": (1, "log_history[0]")})

    def test_a_printed_line_names_its_step(self):
        for text in ("(TaskRunner pid=7) step:12 - solved_all:0.5 - solved_none:0.5",
                     "Global step 12: {'solved_all': 0.5, 'solved_none': 0.5}",
                     '{"solved_all": 0.5, "solved_none": 0.5, "trainer/global_step": 12}'):
            self.assertEqual(metric_log.read(self.write("a.log", text)).points[0]["step"], 12)

    def test_the_state_of_a_trainer_is_found_in_its_last_checkpoint(self):
        state = ('{\n  "best_metric": null,\n  "log_history": [\n    {"step": 10, "reward": 0.5,\n'
                 '     "frac_reward_zero_std": 0.25, "completions/mean_length": 80},\n'
                 '    {"step": 20, "reward": NaN, "frac_reward_zero_std": 0.75},\n'
                 '    {"step": 20, "train_runtime": 5.0}\n  ]\n}\n')
        self.write("checkpoint-9/trainer_state.json", '{"log_history": []}')
        newest = self.write("checkpoint-20/trainer_state.json", state)
        text = metric_log.main(str(self.folder))["report"]
        self.assertIn(f"{newest}: log of TRL, 2 steps\n"
                      "collapse is read from frac_reward_zero_std\n", text)
        self.assertIn("ACR 0.500 on average, 0.750 at the end; ACR-100 0.500, sigma-ACR 0.354\n",
                      text)
        self.assertIn(
            "     10 - 10       0.25            -          -         -       0.500        80\n"
            "     20 - 20       0.75", text)
        summary = json.loads(metric_log.main(str(self.folder), "--json")["report"])["summary"]
        self.assertEqual(summary["acr"], 0.5)
        self.assertEqual(summary["steps"][1]["step"], 20)
        self.assertIsNone(summary["steps"][1]["raw_reward"])

    def test_numbers_of_groups_without_their_whole_are_no_rate(self):
        path = self.write("verl.jsonl", '{"step": 1, "data": '
                          '{"training/filter_groups/evicted_samples": 12}}\n')
        log = metric_log.read(path)
        self.assertEqual(log.trainer, "verl")
        self.assertEqual(log.points[0]["dropped"], 12)
        self.assertIsNone(log.points[0]["acr"])
        self.assertIn("so it has no ACR", metric_log.main(path)["report"])

    def test_a_log_without_a_rate_says_what_to_read_instead(self):
        verl = ("(TaskRunner pid=7) step:34 - actor/grad_norm:0.13 - critic/rewards/mean:-0.02 - "
                "response_length/clip_ratio:0.21\n")
        error = metric_log.main(self.write("verl.log", "starting\n" + verl + verl))["error"]
        self.assertIn("verl.log is a log of 2 steps without a rate of collapse", error)
        self.assertIn("trainer.rollout_data_dir", error)
        state = self.write("trainer_state.json", '{"log_history": [{"step": 1, "reward": 0.5}]}')
        self.assertIn("a log of 1 steps without a rate", metric_log.main(state)["error"])
        logger = self.write("verl.jsonl", '{"step": 1, "data": {"critic/score/mean": 0.5}}\n')
        self.assertIn("a log of 1 steps without a rate", metric_log.main(logger)["error"])
        # Rows of completions have rewards too, and errors of their own.
        rows = self.write("rows.jsonl", '{"prompt": "a", "reward": 1}\n{"pro')
        self.assertEqual(metric_log.main(rows), {})

    def causes(self, **curves):
        """The causes that a log of 40 steps shows; a curve is a function of the share of the run
        that is over."""
        usual = {"frac_reward_zero_std": 0.2, "reward": 0.5, "entropy": 0.6, "kl": 0.1,
                 "grad_norm": 0.4, "clip_ratio/region_mean": 0.05,
                 "completions/clipped_ratio": 0.01, "completions/mean_length": 300}
        text = ""
        for step in range(40):
            row = {"step": step, **usual}
            row.update({name: curve(step / 39) for name, curve in curves.items()})
            text += json.dumps(row) + "\n"
        path = self.write("causes.jsonl", text)
        summary = json.loads(metric_log.main(path, "--json")["report"])["summary"]
        for cause in summary["causes"]:
            self.assertIn(f"\n{cause['name']}: {cause['evidence']}\n",
                          metric_log.main(path)["report"])
        return [cause["name"] for cause in summary["causes"]]

    def test_curves_show_their_cause(self):
        self.assertEqual(self.causes(), [])
        for cause, curves in (
                ("too easy", {"frac_reward_zero_std": lambda t: t, "reward": lambda t: t}),
                ("too hard", {"frac_reward_zero_std": lambda t: 0.9, "reward": lambda t: 0.02}),
                ("truncated", {"completions/clipped_ratio": lambda t: 0.4 * t}),
                ("mode-collapsed", {"entropy": lambda t: 0.6 * 0.01 ** t}),
                ("far from the reference", {"kl": lambda t: 4 * t}),
                ("clipped updates", {"clip_ratio/region_mean": lambda t: 0.5 * t}),
                ("gradient spikes", {"grad_norm": lambda t: 40 if 0.3 < t < 0.4 else 0.4}),
                ("reward without evaluation",
                 {"reward": lambda t: 0.2 + 0.5 * t, "eval_reward": lambda t: 0.3 - 0.1 * t})):
            self.assertEqual(self.causes(**curves), [cause])

    def test_what_also_healthy_runs_do_is_no_cause(self):
        self.assertEqual(
            self.causes(reward=lambda t: 0.2 + 0.5 * t, entropy=lambda t: 0.6 - 0.4 * t,
                        eval_reward=lambda t: 0.2 + 0.4 * t, kl=lambda t: 0.3 * t,
                        grad_norm=lambda t: 8 if t == 1 else 0.4), [])
        # A shaped reward does not say how many completions are right.
        self.assertEqual(self.causes(frac_reward_zero_std=lambda t: 0.9, reward=lambda t: 3), [])

    def test_an_evaluation_may_have_a_line_of_its_own(self):
        rows = []
        for step in range(40):
            rows.append({"step": step, "frac_reward_zero_std": 0.1, "reward": step / 40})
            if step % 5 == 4:
                rows.append({"step": step, "eval_reward": 0.3})
        state = self.write("trainer_state.json", json.dumps({"log_history": rows}))
        log = metric_log.read(state)
        self.assertEqual(len(log.points), 40)
        self.assertEqual([name for name, _ in metric_log.causes(log)],
                         ["reward without evaluation"])

    def test_other_files_are_no_logs(self):
        for text in ("step: 3 - done\n{'a'\n{\"b\": [1]}\n\n'\n", "", "\0\xff\n"):
            self.assertEqual(metric_log.main(self.write("a.txt", text)), {})
        self.assertEqual(metric_log.main(str(self.folder / "none")), {})


if __name__ == "__main__":
    unittest.main()
