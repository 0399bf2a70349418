"""Runs a deterministic run undisturbed, and again through random faults: the weights must have the
same bits, and `buttress ledger audit` must find nothing lost or twice. Prints a table by fault.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

from harm import Failed, make_task, require, wait_for
from kinds import FAULTS
from launched import LaunchedRun

STEPS_PER_FAULT = 60
MOST_STEPS_BETWEEN = 6


def undisturbed(run):
    run.start()
    wait_for("the end of the undisturbed run", lambda: run.launch.poll() is not None, 3600)
    require(run.launch.returncode == 0, f"the undisturbed run ends with {run.launch.returncode}")
    return run.result()


def disturbed(run, order, rng, told):
    """Returns by fault the seconds from its end to the next committed step."""
    run.start()
    run.wait_for_progress(12, "the start")
    recovery = {name: [] for name in FAULTS}
    for number, name in enumerate(order, 1):
        fault, _ = FAULTS[name]
        starts = run.starts
        fault(run, rng)
        begin = time.monotonic()
        run.wait_for_progress(1, f"fault {number}, {name}")
        seconds = time.monotonic() - begin
        recovery[name].append(seconds)
        told(f"{number:4} {name:20} step {run.committed():6} after {seconds:5.1f} s, "
             f"launch {run.starts - starts} times again")
        require(not run.ended(), f"the run has ended after {number} faults; use more steps")
        run.wait_for_progress(rng.randint(0, MOST_STEPS_BETWEEN), name)
        time.sleep(rng.uniform(0, 0.2))  # a fault does not begin with a commit
    wait_for("the end of the run", run.keep_launched, 3600)
    return recovery


def compare(options, zero):
    rng = random.Random(f"{options.seed} {zero}")
    weights = [weight for _, weight in FAULTS.values()]
    order = list(FAULTS) + rng.choices(list(FAULTS), weights, k=options.faults)
    order = order[:options.faults]
    rng.shuffle(order)
    steps = options.steps or STEPS_PER_FAULT * options.faults
    folder = options.out / f"zero-{zero}"
    task = folder / "task"
    make_task(options.bin, task)
    runs = {}
    log = open(folder / "faults.log", "w", encoding="utf-8")

    def told(line):
        print(line, file=log, flush=True)
        if options.verbose:
            print(line, flush=True)

    try:
        for name in ("undisturbed", "disturbed"):
            runs[name] = LaunchedRun(options.bin, task, folder / name, steps, zero)
            runs[name].prepare()
        expected = undisturbed(runs["undisturbed"])
        begin = time.monotonic()
        recovery = disturbed(runs["disturbed"], order, rng, told)
        seconds = time.monotonic() - begin
        found = runs["disturbed"].result()
    except Failed as failure:
        text = (folder / "disturbed" / "launch.log").read_text()[-6000:] \
            if (folder / "disturbed" / "launch.log").exists() else ""
        raise Failed(f"zero {zero}, seed {options.seed}: {failure}\n{text}") from None
    finally:
        if options.keep:
            for name, run in runs.items():
                shutil.copytree(run.out, folder / f"kept-{name}", dirs_exist_ok=True)
        for run in runs.values():
            run.close()
    require(found["digests"] == expected["digests"],
            f"zero {zero}, seed {options.seed}: the weights differ from the undisturbed run")
    return {"zero": zero, "steps": steps, "seconds": round(seconds), "recovery": recovery,
            "groups": found["groups"], "findings": found["findings"]}


def table(reports):
    lines = ["| fault | times | seconds to the next step, median | most |", "|---|---|---|---|"]
    for name in FAULTS:
        seconds = [s for report in reports for s in report["recovery"][name]]
        if seconds:
            lines.append(f"| {name} | {len(seconds)} | {statistics.median(seconds):.1f} | "
                         f"{max(seconds):.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--out", default="runs/with-faults", type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=200, help="of all runs together")
    parser.add_argument("--zero", default="0,3", help="values of local.learner.zero, a run each")
    parser.add_argument("--steps", type=int, default=0, help="of each run; 0: 60 per fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the run folders")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.out = options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    stages = [int(zero) for zero in options.zero.split(",")]
    options.faults = -(-options.faults // len(stages))
    try:
        reports = [compare(options, zero) for zero in stages]
    except Failed as failure:
        print(f"faults: {failure}", file=sys.stderr)
        return 1
    (options.out / "report.json").write_text(json.dumps(reports, indent=1))
    for report in reports:
        print(f"ZeRO {report['zero']}: {report['steps']} steps, {report['seconds']} s, weights "
              f"equal bit by bit, nothing lost or twice; groups {report['groups']}")
    print(table(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
