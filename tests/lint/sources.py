"""Files of the project and the report of a lint test; every lint test here imports it.

A lint test is a module with a function that takes one file (its path below the root, and its text)
and returns its problems as a list of strings, so that self_test.py can feed it bad input.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("cli", "coordinator", "learner", "rollout_worker")
FOLDERS = ("lib", *PROGRAMS, "bench", "tests")
CPP = (".cc", ".cu", ".h")


def files(suffixes, folders=()):
    """Paths of the tracked and the new files, without the ignored ones, below `folders` (default:
    the whole repository) whose names end in one of `suffixes`."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", *folders],
                            capture_output=True,
                            text=True,
                            check=True,
                           ).stdout.split("\n")
    return sorted({p for p in listed if p.endswith(suffixes) and (ROOT / p).is_file()})


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def check_files(paths, check):
    """The problems that `check(path, text)` reports, over all `paths`."""
    return [problem for path in paths for problem in check(path, read(path))]


def finish(problems, what):
    """Prints the problems and exits with 1, or prints what holds."""
    rule = pathlib.Path(sys.argv[0]).stem
    exceptions = tuple(line.split()[1]
                       for line in read("tests/lint/exceptions.txt").splitlines()
                       if line.split()[0] == rule)
    problems = [problem for problem in problems if not problem.startswith(exceptions)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems")
    print(what)
