"""Runs what a study lacks, several runs at once, and says how far it is.

Finished runs are lines of results, so that any interruption costs the runs under way alone.
"""

import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import shutil
import time

from builds import admit_build, identity
from failure import Failure
from results import file_of, finished, read_results
from study_file import flat
from trial import fresh_trials, read_json, tuning_trials

MOST_FAILURES = 3  # in a row: what fails each time does not get better


def differences(before, after):
    """Lines that say which keys differ."""
    before, after = flat(before), flat(after)
    return [f"  {key}: {before.get(key, '(not set)')!r} -> {after.get(key, '(not set)')!r}"
            for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def check_unchanged(study):
    """Refuses a file that differs from that of the first run; returns study.json, None before."""
    first = read_json(study.folder / "study.json")
    if first is not None and first["sha256"] != study.sha256:
        raise Failure(
            f"{study.path} has changed since its first run, and its results are of the old one; "
            f"put it back, or copy it to a new name; only seeds.fresh may grow:\n"
            + "\n".join(differences(first["study"], study.fixed)))
    return first


def check_results(study, first, results):
    """Refuses results of another study file, and of builds that were not found equal."""
    for trial, result in results.items():
        where = f"{file_of(study, trial)}: seed {trial.seed}"
        if result["study_sha256"] != study.sha256:
            raise Failure(f"{where} is of another study file ({result['study_sha256'][:12]}, this "
                          f"one is {study.sha256[:12]}); delete its line, and its run is repeated")
        if first is None or identity(result["build"]) not in first["builds"]:
            raise Failure(f"{where} is of build {result['build']['programs']} on CPU "
                          f"{result['build']['cpu']}, which {study.folder}/study.json does not "
                          "name; delete its line, and its run is repeated")


def check_not_fewer(study):
    """Refuses a file that asks for fewer seeds than have results."""
    seeds = [trial.seed for trial in read_results(study) if trial.value is None]
    if max(seeds, default=0) > study.fresh_seeds:
        raise Failure(f"{study.path}: seeds.fresh is {study.fresh_seeds}, and seed {max(seeds)} "
                      "has results; which seeds count may not depend on them: put the number back, "
                      "it may only grow")


def check_no_gap(study, results):
    """Refuses results in which a seed is whole and one before it is not."""
    for task in study.tasks:
        lacking = None
        for seed in range(1, study.fresh_seeds + 1):
            arms = {t.arm for t in results if (t.task, t.seed, t.value) == (task, seed, None)}
            missing = [arm for arm in study.arms if arm not in arms]
            if missing and lacking is None:
                lacking = seed, missing
            elif not missing and lacking is not None:
                raise Failure(f"seed {lacking[0]} of task {task} has no result of "
                              f"{', '.join(lacking[1])}, and seed {seed} is whole; `buttress study "
                              f"run {study.path}` makes the missing ones")


@contextlib.contextmanager
def owned(path):
    """One `study run` has a folder at a time."""
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Failure(f"{path}: another `buttress study run` works in it", 3) from error
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def work_folder(path):
    """What an earlier run of the study left unfinished is removed."""
    path = pathlib.Path(path)
    with owned(path):
        for left in path.glob("unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)  # programs of a killed study may still end
        yield path


def minutes(seconds):
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


class Progress:
    def __init__(self, done, total, jobs):
        self.done, self.total, self.jobs = done, total, jobs
        self.first, self.begin = done, time.monotonic()

    def say(self, trial, result):
        self.done += 1
        pace = (time.monotonic() - self.begin) / (self.done - self.first)
        print(f"study: {self.done} of {self.total}: {trial.title}: accuracy "
              f"{result['endpoints']['accuracy']:.3f}, {result['seconds']:.0f} s; about "
              f"{minutes(pace * (self.total - self.done))} left", flush=True)


def run_all(trials, executor, progress, jobs):
    """Runs the trials, `jobs` at once. A failed one does not end the others, unless several fail in
    a row."""
    failures, in_a_row = [], 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(executor.run, trial): trial for trial in trials}
        done = False
        try:
            for future in concurrent.futures.as_completed(waiting):
                trial = waiting[future]
                try:
                    result = future.result()
                except Failure as error:
                    failures.append(f"{trial.title}: {error}")
                    print(f"study: {failures[-1]}", flush=True)
                    in_a_row += 1
                    if in_a_row == MOST_FAILURES:
                        raise Failure(f"{MOST_FAILURES} runs failed one after the other", 3) \
                            from error
                    continue
                in_a_row = 0
                progress.say(trial, result)
            done = True
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if not done:
                executor.programs.stop()
    if failures:
        raise Failure(f"{len(failures)} runs failed; the same command tries them again", 3)


def run_study(study, executor, jobs):
    """Stage one, then stage two; finished runs are not repeated."""
    first = check_unchanged(study)
    check_not_fewer(study)
    everything = [*(tuning_trials(study) if study.tuned else []), *fresh_trials(study)]
    results = finished(study, everything)
    check_results(study, first, results)
    admit_build(study, first, results, executor)
    missing = [trial for trial in everything if trial not in results]
    progress = Progress(len(results), len(everything), jobs)
    for stage in ([t for t in missing if t.value is not None],
                  [t for t in missing if t.value is None]):
        run_all(stage, executor, progress, jobs)


def status_text(study):
    check_unchanged(study)
    lines = []
    trials = [*(tuning_trials(study) if study.tuned else []), *fresh_trials(study)]
    results = finished(study, trials)
    for task in study.tasks:
        for arm in study.arms:
            own = [t for t in trials if (t.task, t.arm) == (task, arm)]
            stages = {"tuning": [t for t in own if t.value is not None],
                      "seeds": [t for t in own if t.value is None]}
            counts = ", ".join(f"{name} {sum(t in results for t in of)} of {len(of)}"
                               for name, of in stages.items() if of)
            lines.append(f"{task} {arm}: {counts}")
    left = len(trials) - len(results)
    if left and results:
        mean = sum(r["seconds"] for r in results.values()) / len(results)
        lines.append(f"{left} runs are left, about {minutes(left * mean / cores())} on the "
                     f"{cores()} cores of this machine")
    elif left:
        lines.append(f"{left} runs are left")
    return "\n".join(lines)


def cores():
    return len(os.sched_getaffinity(0))
