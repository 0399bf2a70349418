"""The report of `buttress study`: the table of claims, and the page with every run."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import numpy as np
import synthetic
import yaml

import main as study_main
import readme
import results
import study_file
import trial

STUDY = {
    "name": "toy", "question": "Is <arm> better?",
    "run": {"steps": 10, "eval": {"every": 2}},
    "tasks": {"t": {"make": ["true"]}, "u": {"make": ["true"]}},
    "arms": {"control": {}, "arm": {"run.algorithm.advantage": "avspo"}},
    "seeds": {"fresh": 12},
    "comparisons": [
        {"claim": "gains 4 points", "source": "a paper", "task": "t", "arm": "arm",
         "against": "control", "at_least": 0.04},
        {"claim": "gains 4 points", "task": "u", "arm": "arm", "against": "control"},
        {"claim": "gains on all", "task": "all", "arm": "arm", "against": "control"},
        {"claim": "lowers ACR", "task": "t", "arm": "arm", "against": "control",
         "endpoint": "acr", "lower": True, "relative": True, "at_least": 0.5},
    ],
}


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "toy.yaml"
        self.path.write_text(yaml.safe_dump(STUDY))
        self.study = study_file.read_study(self.path)

    def write(self, task, effect, seed=1):
        made = synthetic.results_of(np.random.default_rng(seed), 12, {"arm": effect},
                                    deviation=0.01)
        for of, result in made.items():
            result.update(study="toy", study_sha256=self.study.sha256, task=task, arm=of.arm,
                          seed=of.seed, settings={})
            results.add_result(self.study, trial.Trial(task, of.arm, of.seed), result)
        trial.write_json(self.study.folder / "study.json", {
            "sha256": self.study.sha256, "study": self.study.fixed,
            "builds": [{"programs": "p", "cpu": "x"}]})

    def change(self, seed, **keys):
        """Changes the result of a seed of the arm; without keys, removes it."""
        path = self.study.folder / "results/t/arm.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [{**line, **keys} if line["seed"] == seed else line for line in lines
                 if keys or line["seed"] != seed]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def call(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = study_main.main("", *map(str, arguments))
        return status, out.getvalue()

    def report(self, *more):
        return self.call("report", self.path, *more)

    def test_table_and_page(self):
        self.write("t", 0.06)
        table = self.folder / "table"
        status, text = self.report("--out", table)
        self.assertEqual(status, 0, text)
        claims, prediction = table.read_text().split("\n## ")
        self.assertIn("| 24 | **refuted** |", prediction)  # toy runs differ in no ACR
        rows = [row for row in claims.splitlines() if row.startswith("| ")]
        self.assertEqual(len(rows), 3)  # the head, and the two comparisons that have results
        self.assertRegex(rows[1], r"\| a paper \| \*\*reproduced\*\* \| \+[56]\.\d points \|")
        self.assertRegex(rows[1], r"\| \+\d\.\d to \+\d\.\d points \|")
        self.assertIn("**refuted**: the effect is the opposite one", rows[2])
        self.assertIn(" % |", rows[2])
        self.assertTrue(rows[1].endswith(f"| 12 | `buttress study run {self.path}` |"), rows[1])
        page = (self.folder / "toy/page.html").read_text()
        self.assertEqual(page.count("<circle"), 2 * 12 * 3)  # runs and endpoints
        self.assertIn("Is &lt;arm&gt; better?", page)
        self.assertNotIn("<script", page)
        self.assertIn("24 runs, 0.0 hours one after the other, of c;", page)

    def test_the_chosen_rows_are_put_into_a_readme(self):
        self.write("t", 0.06)
        path = self.folder / "README.md"
        path.write_text(f"# A\n{readme.BEGIN}\nold\n{readme.END}\nB\n")
        for changes, rows in (({}, 0), ({"readme": True}, 1)):  # the flag does not change the study
            first, *others = STUDY["comparisons"]
            self.path.write_text(yaml.safe_dump({**STUDY, "comparisons": [
                {**first, **changes}, *others]}))
            status, text = self.report("--readme", path)
            self.assertEqual(status, 0, text)
            lines = path.read_text().splitlines()
            self.assertEqual((lines[:2], lines[-2:]), (["# A", readme.BEGIN], [readme.END, "B"]))
            self.assertEqual(len(lines), 6 + rows)
        self.assertIn("| gains 4 points | a paper | **reproduced** | +", lines[4])
        path.write_text("# A\n")
        status, text = self.report("--readme", path)
        self.assertEqual(status, 2)
        self.assertIn("README.md: expected the lines <!-- claims", text)

    def test_the_size_is_said_without_a_page(self):
        self.write("t", 0.06)
        status, text = self.call("size", self.path)
        self.assertEqual((status, text.count("\n")), (0, 4))
        self.assertIn("arm against control on u, accuracy: 0 pairs; the spread needs 3", text)
        self.assertFalse((self.study.folder / "page.html").exists())

    def test_a_study_without_results_has_no_page(self):
        status, text = self.report()
        self.assertEqual((status, text.count("\n")), (0, 2))  # the head of the table
        self.assertFalse((self.folder / "toy").exists())

    def test_tasks_are_pooled(self):
        self.write("t", 0.06)
        self.write("u", 0.02, seed=2)
        status, text = self.report()
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"gains on all \(arm against control on t, u, accuracy\) .* "
                         r"\+[34]\.\d points")

    def test_a_missing_seed_is_refused(self):
        self.write("t", 0.06)
        self.change(7)
        status, text = self.report()
        self.assertEqual(status, 2)
        self.assertIn("seed 7 of task t has no result of arm, and seed 8 is whole", text)
        for seed in range(8, 13):  # those before it are whole, and are judged
            self.change(seed)
        status, text = self.report()
        self.assertEqual(status, 0, text)
        self.assertIn("| 6 |", text)

    def test_fewer_seeds_than_results_are_refused(self):
        self.write("t", 0.06)
        self.path.write_text(yaml.safe_dump({**STUDY, "seeds": {"fresh": 11}}))
        status, text = self.report()
        self.assertEqual(status, 2)
        self.assertIn("seeds.fresh is 11, and seed 12 has results", text)

    def test_results_of_another_file_are_refused(self):
        self.write("t", 0.06)
        self.change(3, study_sha256="other")
        status, text = self.report()
        self.assertEqual(status, 2)
        self.assertIn("is of another study file", text)

    def test_results_of_an_unknown_build_are_refused(self):
        self.write("t", 0.06)
        where = self.change(3, build={"programs": "q", "cpu": "x", "commit": "d"})
        status, text = self.report()
        self.assertEqual(status, 2)
        self.assertIn(f"{where}: seed 3 is of build q on CPU x, which", text)


if __name__ == "__main__":
    unittest.main()
