"""Runs that others begin with: made once for each seed, and kept until the last fork is done."""

import math

from results import read_results
from study_file import flat
from trial import Trial


def is_stem(study, trial):
    return trial.value is None and bool(study.forks_of(trial.arm))


def stem_trial(study, trial):
    """The trial whose run a fork begins with; the trial itself where it is one; None for others."""
    if trial.value is None and trial.arm in study.forks:
        return Trial(trial.task, study.forks[trial.arm].arm, trial.seed)
    return trial if is_stem(study, trial) else None


def checkpoints(study, trial):
    """Settings by which a stem keeps the checkpoints that its forks begin with."""
    if not is_stem(study, trial):
        return {}
    interval = math.gcd(*(study.forks[name].step for name in study.forks_of(trial.arm)))
    settings = {**flat(study.base), **study.tasks[trial.task].settings, **study.arms[trial.arm]}
    return {"run.checkpoint_interval": interval,
            "run.checkpoints.keep_last": int(settings.get("run.steps", 100)) // interval + 2}


def is_done(study, stem):
    """Whether a stem and all its forks have results."""
    found = read_results(study)
    return all(Trial(stem.task, arm, stem.seed) in found
               for arm in (stem.arm, *study.forks_of(stem.arm)))
