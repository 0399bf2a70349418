"""The runs of a study: which there are, and what each of them measured."""

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


def tuning_trials(study):
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + study.tuning_seeds)
    return [Trial(task, arm, seed, value) for task in study.tasks for seed in seeds
            for arm in study.arms if arm not in study.forks for value in study.grid]


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
        raise Failure(f"{path}: no JSON ({error}); put it back", 4) from error


def replace_file(path, text):
    """Replaces the file at once: a reader or a crash finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def write_json(path, value):
    replace_file(path, json.dumps(value, indent=1) + "\n")


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
    """Columns with a number for each evaluation: means over the steps since the one before."""
    curve = {key: [] for key in ("step", "tokens", "accuracy", "acr", "entropy")}
    begin, tokens = 0, 0
    for row in evaluations:
        span = steps[begin:row["step"]]
        tokens += sum(step["drawn"]["tokens"] for step in span)
        point = {"step": row["step"], "tokens": tokens, "accuracy": row["accuracy"],
                 "acr": mean_of(span, "acr"), "entropy": mean_of(span, "entropy")}
        for key, column in curve.items():
            column.append(point[key])
        begin = row["step"]
    return curve


def rows_of(out, name, stem):
    """The rows of a run; of a fork behind those of its parent. `stem`: (folder, last step)."""
    rows = json_lines(out / name)
    if stem:
        folder, last = stem
        rows = [row for row in json_lines(folder / name) if row["step"] <= last] + \
            [row for row in rows if row["step"] > last]
    return rows


def endpoints_of(out, steps_wanted, every, stem=None):
    """(endpoints, curve) of the finished run in the folder `out`."""
    steps = rows_of(out, "steps.jsonl", stem)
    evaluations = rows_of(out, "eval.jsonl", stem)
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
