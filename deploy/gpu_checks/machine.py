"""What the checks know of the machine, and how they run programs on it."""
import json
import pathlib
import subprocess

import cuda_selftest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 900
LAST_LINES = 3


class Failed(Exception):
    """A check found a difference, or a program failed."""


class Skipped(Exception):
    """A check cannot run here."""


def last_lines(text):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-LAST_LINES:])


class Machine:
    """`gpus` has a line for each GPU; `why_no_gpu` is empty where the checks can run."""

    def __init__(self, device, programs, folder):
        self.device, self.bin, self.folder = device, programs.resolve(), folder
        self.gpus, self.why_no_gpu = [], ""
        if device == "cuda":
            self.gpus = cuda_selftest.name_devices()
            if self.gpus[0].startswith("none: "):
                self.why_no_gpu = self.gpus[0].removeprefix("none: ")

    def run(self, *words, stdin=None):
        """Runs a program to its end and returns its stdout. Failed has the last lines of it.
        `stdin` is a text."""
        command = [str(word) for word in words]
        if "/" not in command[0]:
            command[0] = str(self.bin / command[0])
        name = pathlib.Path(command[0]).name
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT,
                                  timeout=TIMEOUT_SECONDS, input=stdin)
        except OSError as error:
            raise Failed(f"{name}: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{name}: not done after {TIMEOUT_SECONDS} s") from error
        if done.returncode != 0:
            raise Failed(f"{name} {' '.join(command[1:2])}: exit code {done.returncode}: "
                         f"{last_lines(done.stderr or done.stdout)}")
        return done.stdout

    def json_rows(self, *words):
        return [json.loads(line) for line in self.run(*words).splitlines()]
