"""`buttress study`: what is run, refused and resumed."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from study_case import ROOT, STUDY, StudyCase, lines_of, without_time

import study_file
import trial


class StudyTest(StudyCase):
    def test_runs_both_stages_and_says_the_time_left(self):
        path = self.write(tasks={"easy": {
            **STUDY["tasks"]["easy"], "evaluations": {"far": {"prompts": "{data}/far.jsonl"}}}})
        status, out, _ = self.run_study(path)
        self.assertEqual(status, 0)
        self.assertIn("study: 8 of 8: ", out)
        self.assertIn("left", out)
        files = {path.name: path.read_text().splitlines()
                 for path in self.folder.glob("toy/results/easy/*")}
        self.assertEqual({name: len(lines) for name, lines in files.items()},
                         {"plain.jsonl": 2, "plain.tuning.jsonl": 2, "other.jsonl": 2,
                          "other.tuning.jsonl": 2})
        self.assertEqual([json.loads(line)["seed"] for line in files["plain.jsonl"]], [1, 2])
        self.assertEqual([json.loads(line)["value"] for line in files["plain.tuning.jsonl"]],
                         ["1e-4", "2e-4"])
        self.assertLess(len(files["other.jsonl"][1]), 1500)
        result = json.loads(files["other.jsonl"][1])
        self.assertEqual(result["settings"]["run.optim.lr"], "2e-4")  # the better one
        self.assertEqual(result["endpoints"]["far"], 0.25)
        self.assertEqual(result["endpoints"]["tokens"], 2000)
        self.assertAlmostEqual(
            result["endpoints"]["accuracy"],
            sum(result["curve"]["accuracy"][-5:]) / 5, delta=1e-6)
        self.assertEqual(result["curve"]["tokens"][3], 800)
        self.assertEqual(list((self.folder / "work-toy").glob("unfinished-*")), [])
        _, out, _ = self.call("status", path)
        self.assertIn("easy other: tuning 2 of 2, seeds 2 of 2", out)

    def test_a_killed_study_continues_to_the_same_results(self):
        whole = self.write("whole")
        self.run_study(whole)
        path = self.write("killed", run={**STUDY["run"], "pause": 0.2})
        for kills in range(1, 4):
            process = self.process(path)
            self.wait(lambda count=kills: len(without_time(self.folder / "killed")) >= count)
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertLess(len(without_time(self.folder / "killed")), 8)
        self.assertEqual(self.run_study(path)[0], 0)
        expected = without_time(self.folder / "whole")
        found = without_time(self.folder / "killed")
        for results in (expected, found):  # the pause is a setting of the file
            for result in results.values():
                result.pop("study_sha256")
        self.assertEqual(found, expected)

    def test_an_interrupted_study_ends_its_runs(self):
        path = self.write(run={**STUDY["run"], "pause": 60})
        process = self.process(path)
        self.wait(self.under_way)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 130)

    def test_finished_runs_are_not_repeated_and_seeds_may_be_added(self):
        self.run_study(self.write())
        before = lines_of(self.folder)  # with the time that each took
        status, out, _ = self.run_study(self.write(seeds={"tuning": 1, "fresh": 3}))
        self.assertEqual(status, 0)
        self.assertIn("10 of 10", out)
        after = lines_of(self.folder)
        self.assertEqual({place: after[place] for place in before}, before)

    def test_a_changed_file_is_refused_with_what_differs(self):
        self.run_study(self.write())
        status, _, errors = self.run_study(self.write(arms={
            **STUDY["arms"], "other": {"run.algorithm.advantage": "rloo"}}))
        self.assertEqual(status, 2)
        self.assertIn("arms.other.run.algorithm.advantage: 'avspo' -> 'rloo'", errors)
        self.assertIn("arms.other.run.gain: 0.1 -> '(not set)'", errors)

    def test_failed_runs_are_named_and_tried_again(self):
        path = self.write(run={**STUDY["run"], "fails": True})
        status, out, errors = self.run_study(path, "--jobs", "1")
        self.assertEqual(status, 3)
        self.assertIn("the start model is damaged", out)
        self.assertIn("3 runs failed one after the other", errors)

    def test_a_lost_evaluation_fails_its_run(self):
        path = self.write(run={**STUDY["run"], "eval": {"every": 4}})
        self.run_study(path)
        out = self.folder / "out"
        out.mkdir()
        (out / "steps.jsonl").write_text('{"step": 1, "acr": 0, "entropy": 0, "drawn": '
                                         '{"tokens": 1}}\n' * 2)
        (out / "eval.jsonl").write_text('{"step": 2, "accuracy": 0.5}\n')
        with self.assertRaisesRegex(Exception, "no evaluation of step 1"):
            trial.endpoints_of(out, 2, 1)

    def test_numbers_that_were_not_measured_are_left_out(self):
        rows = [{"step": 1, "acr": None}, {"step": 2, "acr": 0.5}]
        self.assertEqual(trial.mean_of(rows, "acr"), 0.5)
        with self.assertRaisesRegex(Exception, "acr was measured in none of the steps 1 to 1"):
            trial.mean_of(rows[:1], "acr")

    def test_two_studies_do_not_share_a_folder(self):
        path = self.write(run={**STUDY["run"], "pause": 60})
        process = self.process(path)
        self.wait(self.under_way)
        status, _, errors = self.run_study(path)
        process.terminate()
        process.wait(timeout=20)
        self.assertEqual(status, 3)
        self.assertIn("another `buttress study run`", errors)

    def test_bad_files_are_refused_with_the_place(self):
        comparison = STUDY["comparisons"][0]
        for changes, expected in (
            ({"arms": {"a b": {}}}, "arms: 'a b' is no name"),
            ({"arms": {**STUDY["arms"], "x": {"optim.lr": 1}}}, "arms.x: 'optim.lr' is no setting"),
            ({"arms": {**STUDY["arms"], "x": {"run.seed": 1}}}, "run.seed is set by the study"),
            ({"colour": 1}, "colour: is no key of a study"),
            ({"seeds": {"tuning": 2}}, "seeds.fresh: is missing"),
            ({"seeds": {"tuning": 0, "fresh": 3}}, "seeds: expected fresh: 1 or more"),
            ({"run": {**STUDY["run"], "eval": {"every": 3}}}, "run.eval.every is 3"),
            ({"comparisons": [{**comparison, "arm": "third"}]}, "'third' is none of other, plain"),
            ({"comparisons": [{**comparison, "task": "hard"}]}, "'hard' is none of easy, all"),
            ({"comparisons": [{**comparison, "tasks": []}]}, "tasks: expected one task"),
            ({"comparisons": [{**comparison, "against": "other"}]}, "is the arm itself"),
            ({"comparisons": [{**comparison, "at_least": "much"}]}, "expected a number"),
            ({"tuning": {"run.optim.lr": 3}}, "tuning: expected one setting with a list"),
        ):
            with self.subTest(expected):
                status, _, errors = self.run_study(self.write(**changes))
                self.assertEqual(status, 2)
                self.assertIn(expected, errors)


class StudiesTest(unittest.TestCase):
    """The studies of this repository."""

    def test_every_study_can_be_read(self):
        paths = sorted((ROOT / "studies").glob("*.yaml"))
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            self.assertTrue(study_file.read_study(path).comparisons)

    def test_the_wrong_rule_is_learned_and_the_right_one_rewarded(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "studies/tasks/wrong_rule.py", folder, "3"],
                           check=True)
            rows = {path.stem: [json.loads(line) for line in path.read_text().splitlines()]
                    for path in pathlib.Path(folder).glob("*.jsonl")}
        self.assertFalse({row["prompt"] for row in rows["train"]} &
                         {row["prompt"] for row in rows["held_out"]})
        self.assertTrue(all(row["answer"] == max(row["prompt"][:4]) for row in rows["held_out"]))
        wrong = [row["response"] == min(row["prompt"][:4]) for row in rows["sft"]]
        self.assertAlmostEqual(sum(wrong) / len(wrong), 0.991, delta=0.003)
        right = [row["response"] == max(row["prompt"][:4]) for row in rows["sft"]]
        self.assertAlmostEqual(sum(right) / len(right), 0.001, delta=0.0008)


if __name__ == "__main__":
    unittest.main()
