"""The runs of a study: which there are, what each of them measured, and their files."""

import dataclasses
import json
import os
import statistics

from failure import Failure
from study_file import FIRST_TUNING_SEED, LAST_EVALUATIONS


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run. `value` is what stage one tries for the tuned setting; None in stage two."""

    task: str
    arm: str
    seed: int
    value: object = None

    @property
    def title(self):
        tried = "" if self.value is None else f" tuning {self.value}"
        return f"{self.task} {self.arm}{tried} seed {self.seed}"

    def path(self, study):
        folder = study.folder / "results" / self.task / self.arm
        if self.value is not None:
            folder = folder / f"tuning-{self.value}"
        return folder / f"{self.seed}.json"


def tuning_trials(study):
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + study.tuning_seeds)
    return [Trial(task, arm, seed, value) for task in study.tasks for seed in seeds
            for arm in study.arms for value in study.grid]


def fresh_trials(study):
    """Seed by seed, so that what an interruption leaves is pairs."""
    return [Trial(task, arm, seed) for seed in range(1, study.fresh_seeds + 1)
            for task in study.tasks for arm in study.arms]


def read_json(path):
    """What a file of the study holds; None if there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Failure(f"{path}: no JSON ({error}); delete it, and its run is repeated",
                      4) from error


def read_result(study, trial):
    """The result of a trial; None if it has not run."""
    return read_json(trial.path(study))


def write_json(path, value):
    """Replaces the file at once: a reader or a crash finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def chosen_value(study, task, arm):
    """The value of stage one with the highest mean of the primary endpoint; the first of equals.
    One that only a pair has is accuracy there."""
    key = "accuracy" if study.primary == "accuracy_at_equal_tokens" else study.primary

    def mean(value):
        results = [read_result(study, t) for t in tuning_trials(study)
                   if (t.task, t.arm, t.value) == (task, arm, value)]
        if None in results:
            raise Failure(f"stage one of arm {arm} on task {task} has not finished; run `buttress "
                          f"study run {study.path}`", 3)
        return statistics.fmean(r["endpoints"][key] for r in results)

    return max(study.grid, key=mean)


def json_lines(path):
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return []


def mean_of(rows, key):
    """The mean over the rows that have a number there."""
    values = [row[key] for row in rows if row[key] is not None]
    if not values:
        raise Failure(f"{key} was measured in none of the steps {rows[0]['step']} to "
                      f"{rows[-1]['step']}", 4)
    return statistics.fmean(values)


def curve_of(steps, evaluations):
    """A point for each evaluation: means over the steps since the one before."""
    curve, begin, tokens = [], 0, 0
    for row in evaluations:
        span = steps[begin:row["step"]]
        tokens += sum(step["drawn"]["tokens"] for step in span)
        curve.append({"step": row["step"], "tokens": tokens, "accuracy": row["accuracy"],
                      "acr": mean_of(span, "acr"), "entropy": mean_of(span, "entropy")})
        begin = row["step"]
    return curve


def endpoints_of(out, steps_wanted, every):
    """(endpoints, curve) of the finished run in the folder `out`."""
    steps = json_lines(out / "steps.jsonl")
    evaluations = json_lines(out / "eval.jsonl")
    if len(steps) != steps_wanted:
        raise Failure(f"{out}: it has {len(steps)} steps of {steps_wanted}", 4)
    missing = set(range(every, steps_wanted + 1, every)) - {row["step"] for row in evaluations}
    if missing:
        raise Failure(f"{out}: no evaluation of step {min(missing)}; its evaluator may have "
                      f"failed: see {out}/logs/evaluator.log", 4)
    last = steps[-max(1, steps_wanted // 10):]
    endpoints = {
        "accuracy": mean_of(evaluations[-LAST_EVALUATIONS:], "accuracy"),
        "acr": mean_of(steps, "acr"),
        "acr_100": mean_of(steps[:100], "acr"),
        "entropy": mean_of(last, "entropy"),
        "tokens": sum(step["drawn"]["tokens"] for step in steps),
    }
    return endpoints, curve_of(steps, evaluations)
