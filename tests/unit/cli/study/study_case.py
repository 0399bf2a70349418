"""A study of two arms with a stand-in for the programs, for the tests of `buttress study`."""

import contextlib
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fake_build
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[4]
CLI = ROOT / "cli"
sys.path.insert(0, str(CLI / "study"))
import main as study_main  # noqa: E402

STUDY = {
    "name": "toy",
    "run": {"steps": 20, "eval": {"every": 2}, "model": {"path": "{data}/cold"},
            "data": {"held_out": "{data}/held_out.jsonl"}, "algorithm": {}},
    "tasks": {"easy": {"make": ["buttress start {data}/cold {seed}"]}},
    "arms": {"plain": {"run.algorithm.advantage": "grpo"},
             "other": {"run.algorithm.advantage": "avspo", "run.gain": 0.1}},
    "tuning": {"run.optim.lr": ["1e-4", "2e-4"]},
    "seeds": {"tuning": 1, "fresh": 2},
    "comparisons": [{"claim": "other gains", "task": "easy", "arm": "other", "against": "plain",
                     "at_least": 0.05}],
}


def lines_of(folder):
    """All results, as (file, line), with the numbers of their lines."""
    return {(str(path.relative_to(folder)), number): line
            for path in sorted(folder.rglob("results/*/*.jsonl"))
            for number, line in enumerate(path.read_text().splitlines())}


def without_time(folder):
    """All results by their place, but for how long they took."""
    results = {place: json.loads(line) for place, line in lines_of(folder).items()}
    return {place: {k: v for k, v in result.items() if k != "seconds"}
            for place, result in results.items()}


class StudyCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.build = self.folder / "bin"
        fake_build.write_build(self.build)

    def write(self, stem="toy", **changes):
        path = self.folder / f"{stem}.yaml"
        path.write_text(yaml.safe_dump({**STUDY, **changes}))
        return path

    def call(self, *arguments):
        """(status, output, errors) of the command in this process."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = study_main.main(str(self.build), *map(str, arguments))
        return status, out.getvalue(), errors.getvalue()

    def run_study(self, path, *more):
        return self.call("run", path, "--work", self.folder / f"work-{path.stem}", "--nice",
                         0, *more)

    def process(self, path):
        return subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(CLI / 'study')!r}); "
             "import main; sys.exit(main.main(*sys.argv[1:]))", self.build, "run", path, "--work",
             self.folder / f"work-{path.stem}", "--nice", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))  # as behind `&`

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def under_way(self):
        return list((self.folder / "work-toy").glob("unfinished-*/out"))
