"""Files of the project and the report of a lint test; every lint test here imports it.

A lint test is a module with a function that takes one file (its path below the root, and its text)
and returns its problems as a list of strings, so that self_test.py can feed it bad input.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("cli", "coordinator", "learner", "rollout_worker")
CPP = (".cc", ".cu", ".h")


def files(suffixes, folders=()):
    """Paths of the tracked and the new files, without the ignored ones, below `folders` (default:
    the whole repository) whose names end in one of `suffixes`."""
    command = ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", *folders]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = run.stdout.split("\n")
    return sorted({p for p in listed if p.endswith(suffixes) and (ROOT / p).is_file()})


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def check_files(paths, check):
    """The problems that `check(path, text)` reports, over all `paths`."""
    return [problem for path in paths for problem in check(path, read(path))]


def finish(problems, what):
    """Prints the problems and exits with 1, or prints what holds."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems")
    print(what)
