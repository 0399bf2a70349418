"""The results of a study: a line of JSON for each finished run, a file for each arm of a task.

studies/<study>/results/<task>/<arm>.jsonl         stage two, by seed
studies/<study>/results/<task>/<arm>.tuning.jsonl  stage one, by value and seed

A file is replaced as a whole, by the one process that runs the study.
"""

import json
import statistics
import threading

from failure import Failure
from trial import Trial, replace_file, tuning_trials

KEYS = {"study", "study_sha256", "task", "arm", "seed", "settings", "build", "seconds",
        "endpoints", "curve"}
DIGITS = 6  # of a number that is measured
WRITING = threading.Lock()


def rounded(tree):
    """The numbers of a tree as they are kept and compared."""
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [rounded(value) for value in tree]
    return float(f"{tree:.{DIGITS}g}") if isinstance(tree, float) else tree


def file_of(study, trial):
    stage = "" if trial.value is None else ".tuning"
    return study.folder / "results" / trial.task / f"{trial.arm}{stage}.jsonl"


def read_line(study, path, number, line):
    """(trial, its result) of a line."""
    def fail(text):
        raise Failure(f"{path}:{number}: {text}; delete the line, and its run is repeated", 4)

    try:
        result = json.loads(line)
    except ValueError as error:
        fail(f"no JSON ({error})")
    lacking = KEYS - result.keys() if isinstance(result, dict) else KEYS
    if lacking:
        fail(f"no result of a study, which has {', '.join(sorted(lacking))}")
    if {"programs", "cpu", "commit"} - result["build"].keys():
        fail("its build does not name programs, cpu and commit")
    trial = Trial(result["task"], result["arm"], result["seed"], result.get("value"))
    if result["study"] != study.name or file_of(study, trial) != path:
        fail(f"a foreign line: it is of study {result['study']}, {trial.title}")
    return trial, result


def read_file(study, path):
    """{trial: its result} of a file; empty without the file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for number, line in enumerate(lines, 1):
        trial, result = read_line(study, path, number, line)
        if trial in found:
            raise Failure(f"{path}:{number}: {trial.title} has a result above already; delete one "
                          "of the two lines", 4)
        found[trial] = result
    return found


def read_results(study):
    """{trial: its result} of all finished runs, of tasks and arms that the file no longer has
    too."""
    found = {}
    for path in sorted(study.folder.glob("results/*/*.jsonl")):
        found.update(read_file(study, path))
    return found


def finished(study, trials):
    """{trial: its result} of those that have one, in their order."""
    found = read_results(study)
    return {trial: found[trial] for trial in trials if trial in found}


def add_result(study, trial, result):
    path = file_of(study, trial)
    with WRITING:
        results = {**read_file(study, path), trial: result}
        order = sorted(results, key=lambda t: (str(t.value), t.seed))
        replace_file(path, "".join(json.dumps(results[t], separators=(",", ":")) + "\n"
                                   for t in order))


def chosen_value(study, task, arm):
    """The value of stage one with the highest mean of the primary endpoint; the first of equals.
    An endpoint that only a pair has is accuracy there; a fork has the value of its parent."""
    arm = study.forks[arm].arm if arm in study.forks else arm
    key = "accuracy" if study.primary == "accuracy_at_equal_tokens" else study.primary
    trials = [t for t in tuning_trials(study) if (t.task, t.arm) == (task, arm)]
    results = read_file(study, file_of(study, trials[0]))
    if not all(trial in results for trial in trials):
        raise Failure(f"stage one of arm {arm} on task {task} has not finished; run `buttress "
                      f"study run {study.path}`", 3)

    def mean(value):
        return statistics.fmean(results[t]["endpoints"][key] for t in trials if t.value == value)

    return max(study.grid, key=mean)
