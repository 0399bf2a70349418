"""Which builds, and kinds of CPU, results may be of: those that make the same numbers.

A deterministic run depends on the code and on the instructions that it finds. Kernels for AVX-512
add in another order than those for AVX2, and a run multiplies such a difference. Another build or
kind of CPU continues a study if it repeats finished runs exactly.
"""

import pathlib
import platform

from failure import Failure
from trial import write_json

AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}


def cpu_kind(text, machine):
    """What libtorch and its libraries choose their kernels by, of the text of /proc/cpuinfo."""
    rows = [row.partition(":") for row in text.splitlines()]
    found = {key.strip(): value.strip() for key, _, value in reversed(rows)}
    flags = set(found.get("flags", "").split())
    level = "avx512" if AVX512 <= flags else "avx2" if {"avx2", "fma"} <= flags else "other"
    return " ".join(filter(None, (machine, found.get("vendor_id", ""), level)))


def this_cpu():
    return cpu_kind(pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"),
                    platform.machine())


def identity(build):
    """Of the build of a result, what study.json names."""
    return {"programs": build["programs"], "cpu": build["cpu"]}


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


def refusal(title, found, before, here):
    """Says whether the CPU differs, the programs, or both."""
    kinds = {"another build": before["programs"] != here["programs"],
             "another kind of CPU": before["cpu"] != here["cpu"]}
    return (f"{' and '.join(kind for kind, other in kinds.items() if other)}, other results: "
            f"{title} differs: {found}; it was made by build {before['programs']} (commit "
            f"{before['commit']}) on CPU {before['cpu']}, and this is build {here['programs']} on "
            f"CPU {here['cpu']}; use that build on that kind of CPU, or copy the file to a new "
            "name and begin anew")


def repeat(results, executor):
    """Refuses a build or a kind of CPU that does not repeat results exactly."""
    samples = samples_of(results)
    print("study: results are of another build or kind of CPU; "
          f"{len(samples)} of them are repeated with this one", flush=True)
    for trial in samples:
        before = results[trial]
        found = difference(before, executor.repeat(trial))
        if found:
            raise Failure(refusal(trial.title, found, before["build"], executor.identity))
        print(f"study: {trial.title}: the same", flush=True)


def admit_build(study, first, results, executor):
    """Enters this build and CPU in study.json, after proof where there are results of others."""
    builds = first["builds"] if first else []
    if executor.identity in builds:
        return
    if results:
        repeat(results, executor)
    write_json(study.folder / "study.json", {"sha256": study.sha256, "study": study.fixed,
                                             "builds": [*builds, executor.identity]})
