"""Which builds a study's results may be of: those that make the same numbers.

A deterministic run depends on the code alone, so another build continues a study if it repeats
finished runs exactly.
"""

from failure import Failure
from trial import write_json


def samples_of(results):
    """The finished run of the lowest seed for each task and arm."""
    chosen = {}
    for trial in sorted(results, key=lambda t: (t.seed, str(t.value))):
        chosen.setdefault((trial.task, trial.arm), trial)
    return list(chosen.values())


def difference(before, after):
    """The first number that differs, in words; None if all are equal."""
    for key in before["endpoints"]:
        if before["endpoints"][key] != after["endpoints"].get(key):
            return f"{key} {before['endpoints'][key]!r} -> {after['endpoints'].get(key)!r}"
    for key, column in before["curve"].items():
        for step, old, new in zip(before["curve"]["step"], column, after["curve"][key]):
            if old != new:
                return f"{key} at step {step} {old!r} -> {new!r}"
    return None


def repeat(results, executor):
    """Refuses a build that does not repeat results exactly."""
    samples = samples_of(results)
    programs = executor.programs
    print(f"study: results are of another build; {len(samples)} of them are repeated with this one",
          flush=True)
    for trial in samples:
        before = results[trial]
        found = difference(before, executor.repeat(trial))
        if found:
            raise Failure(
                f"another build, other results: {trial.title} differs: {found}; coordinator, "
                f"learner and rollout_worker are {before['build']['programs']} there (commit "
                f"{before['build']['commit']}) and {programs.sha256} here; use that build, or copy "
                "the file to a new name and begin anew")
        print(f"study: {trial.title}: the same", flush=True)


def admit_build(study, first, results, executor):
    """Enters this build in study.json, after proof where there are results of another one."""
    builds = first["builds"] if first else []
    programs = executor.programs.sha256
    if programs in builds:
        return
    if results:
        repeat(results, executor)
    write_json(study.folder / "study.json", {"sha256": study.sha256, "study": study.fixed,
                                             "builds": [*builds, programs]})
