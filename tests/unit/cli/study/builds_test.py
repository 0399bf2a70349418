"""`buttress study`: what a result is, and of which builds and kinds of CPU."""

import json
import unittest
import unittest.mock

import fake_build
from study_case import STUDY, StudyCase, without_time

import builds


class ResultTest(StudyCase):
    def test_a_run_whose_line_is_deleted_is_repeated_identically(self):
        path = self.write()
        self.run_study(path)
        before = without_time(self.folder)
        file = self.folder / "toy/results/easy/plain.jsonl"
        file.write_text(file.read_text().splitlines()[1] + "\n")
        self.assertEqual(len(without_time(self.folder)), 7)
        self.assertIn("study: 8 of 8: easy plain seed 1: ", self.run_study(path)[1])
        self.assertEqual(without_time(self.folder), before)

    def test_lines_that_are_no_results_are_refused_with_their_place(self):
        path = self.write()
        self.run_study(path)
        file = self.folder / "toy/results/easy/plain.jsonl"
        whole = file.read_text()
        first, second = whole.splitlines()
        foreign = second.replace('"arm":"plain"', '"arm":"other"')
        for text, expected in (
            (whole[:-30], ":2: no JSON ("),
            (whole + '{"seed":3}\n', ":3: no result of a study, which has arm, build, curve"),
            (whole + "3\n", ":3: no result of a study"),
            (whole.replace('"cpu"', '"c"'), ":1: its build does not name programs, cpu and"),
            (f"{first}\n{foreign}\n", ":2: a foreign line: it is of study toy, easy other seed 2"),
            (whole + first, ":3: easy plain seed 1 has a result above already"),
        ):
            with self.subTest(expected):
                file.write_text(text)
                for command in ("status", "report"):
                    status, _, errors = self.call(command, path)
                    self.assertEqual(status, 4)
                    self.assertIn(f"{file}{expected}", errors)

    def test_another_build_with_the_same_numbers_continues(self):
        path = self.write()
        self.run_study(path)
        before = without_time(self.folder)
        (self.build / "learner").write_text("another")
        status, out, _ = self.run_study(self.write(seeds={"tuning": 1, "fresh": 3}))
        self.assertEqual(status, 0)
        self.assertEqual(out.count(": the same\n"), 2)  # one for each arm
        builds = json.loads((self.folder / "toy/study.json").read_text())["builds"]
        results = without_time(self.folder)
        self.assertEqual({result["build"]["programs"] for result in results.values()},
                         {build["programs"] for build in builds})
        self.assertEqual({p: results[p] for p in before}, before)
        self.assertNotIn("the same", self.run_study(path)[1])

    def test_another_build_with_other_numbers_is_refused(self):
        path = self.write()
        self.run_study(path)
        (self.build / "learner").write_text("another")
        fake_build.write_build(self.build, bias=1e-4)
        status, _, errors = self.run_study(path)
        self.assertEqual(status, 2)
        self.assertIn("another build, other results: easy other seed 1 differs: accuracy ", errors)
        self.assertIn("(commit abc)", errors)

    def test_another_kind_of_cpu_continues_with_the_same_numbers_alone(self):
        path = self.write()
        with unittest.mock.patch("execution.this_cpu", lambda: "x86_64 avx512"):
            self.run_study(path)
        with unittest.mock.patch("execution.this_cpu", lambda: "x86_64 avx2"):
            status, out, _ = self.run_study(self.write(seeds={"tuning": 1, "fresh": 3}))
            self.assertEqual((status, out.count(": the same\n")), (0, 2))
            last = (self.folder / "toy/results/easy/plain.jsonl").read_text().splitlines()[-1]
            self.assertEqual(json.loads(last)["build"]["cpu"], "x86_64 avx2")
        fake_build.write_build(self.build, bias=1e-4)
        programs = json.loads((self.folder / "toy/study.json").read_text())["builds"][0]["programs"]
        with unittest.mock.patch("execution.this_cpu", lambda: "aarch64 other"), \
                unittest.mock.patch("execution.Programs.digest", lambda _: programs):
            status, _, errors = self.run_study(path)
        self.assertEqual(status, 2)
        self.assertIn("another kind of CPU, other results: easy other seed 1 differs", errors)
        self.assertIn("on CPU x86_64 avx512, and this is build", errors)
        self.assertIn("on CPU aarch64 other; use that build on that kind of CPU", errors)

    def test_the_kind_of_a_cpu_is_its_kernels(self):
        text = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu fma avx2{}\n\n"
        for more, expected in (("", "avx2"), (" avx512f", "avx2"),
                               (" avx512f avx512dq avx512bw avx512vl", "avx512")):
            self.assertEqual(builds.cpu_kind(text.format(more) * 2, "x86_64"),
                             f"x86_64 GenuineIntel {expected}")
        self.assertEqual(builds.cpu_kind("processor\t: 0\nFeatures\t: asimd\n", "aarch64"),
                         "aarch64 other")

    def test_results_of_an_unknown_build_are_refused(self):
        path = self.write()
        self.run_study(path)
        result = self.folder / "toy/results/easy/plain.jsonl"
        result.write_text(result.read_text().replace('"programs":"', '"programs":"0', 1))
        for command in (lambda: self.run_study(path), lambda: self.call("report", path)):
            status, _, errors = command()
            self.assertEqual(status, 2)
            self.assertIn(f"{result}: seed 1 is of build 0", errors)


if __name__ == "__main__":
    unittest.main()
