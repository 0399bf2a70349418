"""The study file: what is compared on which tasks, with which seeds, and what is claimed.

docs/studies.md describes its keys.
"""

import dataclasses
import hashlib
import json
import pathlib
import re

from comparison import BUILT_IN, read_comparison
from failure import Failure
from reader import Reader, named, read_tree

LAST_EVALUATIONS = 5  # whose mean is the accuracy of a run
FIRST_TUNING_SEED = 1_000_001
OWN_SETTINGS = ("run.name", "run.seed", "run.deterministic", "local.out")


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    make: list  # commands that make its data and cold start
    settings: dict
    evaluations: dict  # name -> Evaluation, after the last step


@dataclasses.dataclass(frozen=True)
class Evaluation:
    prompts: str
    completions: int = 8
    limit: int = 0  # prompts; 0: all
    k: int = 1  # pass@k


@dataclasses.dataclass(frozen=True)
class Fork:
    """An arm that begins with a checkpoint of another arm's run of the same seed."""

    arm: str
    step: int


@dataclasses.dataclass(frozen=True)
class Study:
    path: pathlib.Path
    name: str
    primary: str
    base: dict  # {"run": ..., "local": ...}
    tasks: dict
    arms: dict  # name -> settings
    tuned: str  # the setting that stage one chooses; "" without stage one
    grid: list
    tuning_seeds: int
    fresh_seeds: int
    comparisons: list
    fixed: dict  # what may not change after the first run: all but seeds.fresh and `readme`
    forks: dict = dataclasses.field(default_factory=dict)  # name of an arm -> Fork

    def forks_of(self, arm):
        """The arms that begin with a checkpoint of this one."""
        return [name for name, fork in self.forks.items() if fork.arm == arm]

    @property
    def folder(self):
        """What is committed: results and pages."""
        return self.path.with_suffix("")

    @property
    def sha256(self):
        return hashlib.sha256(json.dumps(self.fixed, sort_keys=True).encode()).hexdigest()


def settings_of(reader, key, value):
    """Checks a mapping of dotted settings."""
    for name in value:
        if not re.match(r"(run|local)\.", str(name)):
            reader.fail(key, f"{name!r} is no setting; write its whole name, as run.optim.lr")
        if name in OWN_SETTINGS:
            reader.fail(key, f"{name} is set by the study itself")
    return value


def read_task(path, name, value):
    reader = Reader(path, f"tasks.{name}", value)
    make = reader.take("make", list)
    if not make or not all(isinstance(command, str) and command.strip() for command in make):
        reader.fail("make", "expected a list of commands")
    settings = settings_of(reader, "set", reader.take("set", dict, {}))
    reader.take("why", str, "")
    evaluations = {}
    for key, inner in reader.take("evaluations", dict, {}).items():
        row = Reader(path, f"tasks.{name}.evaluations.{key}", inner)
        evaluations[key] = Evaluation(
            row.take("prompts", str), row.take("completions", int, 8), row.take("limit", int, 0),
            row.take("k", int, 1))
        if key in BUILT_IN:
            reader.fail(f"evaluations.{key}", "is the name of an endpoint of every run")
        row.end()
    reader.end()
    return Task(name, make, settings, evaluations)


def read_arms(path, values):
    """(settings of each arm, forks); a fork has the settings of its parent where it sets none."""
    arms, forks = {}, {}
    for name, value in values.items():
        reader = Reader(path, f"arms.{name}", value or {})
        origin = reader.take("from", dict, {})
        arms[name] = settings_of(reader, "", reader.left)
        if origin:
            inner = Reader(path, f"arms.{name}.from", origin)
            forks[name] = Fork(inner.choice("arm", tuple(values)), inner.take("step", int))
            inner.end()
    for name, fork in forks.items():
        if fork.arm in forks or fork.step < 1:
            raise Failure(f"{path}: arms.{name}.from: expected an arm that is no fork, and a step "
                          "of 1 or more")
        arms[name] = {**arms[fork.arm], **arms[name]}
    return arms, forks


def check_evaluations(path, study):
    """The accuracy of a run is the mean of its last evaluations, the newest after the last step."""
    for task in study.tasks.values():
        for name, arm in study.arms.items():
            settings = {**flat(study.base), **task.settings, **arm}
            steps = int(settings.get("run.steps", 100))
            every = int(settings.get("run.eval.every", 0))
            if name in study.forks and study.forks[name].step >= steps:
                raise Failure(f"{path}: arms.{name}.from.step: expected less than run.steps, "
                              f"{steps}, of task {task.name}")
            if every <= 0 or steps % every or steps // every < LAST_EVALUATIONS:
                raise Failure(
                    f"{path}: run.eval.every is {every} and run.steps {steps} on task {task.name}; "
                    f"the accuracy is the mean of the last {LAST_EVALUATIONS} evaluations, so let "
                    f"run.eval.every divide run.steps, {LAST_EVALUATIONS} times or more")


def flat(tree, prefix=""):  # {"run": {"steps": 3}} as {"run.steps": 3}
    found = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def read_study(path):
    path = pathlib.Path(path)
    tree = read_tree(path)
    reader = Reader(path, "", tree)
    name, _ = reader.take("name", str), reader.take("question", str, "")
    base = {"run": reader.take("run", dict), "local": reader.take("local", dict, {})}
    settings_of(reader, "run", flat(base))
    tasks = {key: read_task(path, key, value) for key, value in named(reader, "tasks").items()}
    arms, forks = read_arms(path, named(reader, "arms"))
    tuning = reader.take("tuning", dict, {})
    if len(tuning) > 1 or not all(isinstance(grid, list) and grid for grid in tuning.values()):
        reader.fail("tuning", "expected one setting with a list of values, as "
                    "run.optim.lr: [1e-4, 3e-4]")
    settings_of(reader, "tuning", tuning)
    seeds = Reader(path, "seeds", reader.take("seeds", dict))
    tuning_seeds, fresh_seeds = seeds.take("tuning", int, 0), seeds.take("fresh", int)
    seeds.end()
    if fresh_seeds < 1 or tuning_seeds < bool(tuning):
        reader.fail("seeds", "expected fresh: 1 or more, and tuning too where a setting is tuned")
    comparisons = [read_comparison(path, i, value, tasks, arms)
                   for i, value in enumerate(reader.take("comparisons", list), 1)]
    primary = reader.choice("primary", BUILT_IN, "accuracy")
    reader.end()
    fixed = {**tree, "seeds": {**tree["seeds"], "fresh": None}, "comparisons": [
        {key: row[key] for key in row if key != "readme"} for row in tree["comparisons"]]}
    study = Study(path, name, primary, base, tasks, arms, *(next(iter(tuning.items()), ("", []))),
                  tuning_seeds, fresh_seeds, comparisons, fixed, forks)
    check_evaluations(path, study)
    return study
