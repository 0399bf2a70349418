"""Steps per second of a run with a worker that is broken (tests/support/fakes/broken_worker.cc),
and of
the same run alone: for each case, windows with and without it take turns in one run of the
quickstart recipe. Needs the program `broken_worker` in build/release (ninja -C build/release
broken_worker)."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from experiments.countdown import BIN, ROOT, cold_start, launch_command, steps_of
from report import Report, parser, progress

CASES = ["rubbish", "hangs", "unable"]
ENDLESS = 1000000


def steps_in(out, seconds):
    """Steps per second of the next window."""
    begin, first = time.monotonic(), len(steps_of(out))
    time.sleep(seconds)
    return (len(steps_of(out)) - first) / (time.monotonic() - begin)


def windows(out, case, options):
    """The mean rates with the broken worker and alone. It is taken back before each window."""
    beside, alone = [], []
    for _ in range(options.rounds):
        alone.append(steps_in(out, options.seconds))
        broken = subprocess.Popen([BIN / "broken_worker", out, case], stdout=subprocess.DEVNULL)
        beside.append(steps_in(out, options.seconds))
        broken.send_signal(signal.SIGTERM)
        broken.wait()
        subprocess.run([BIN / "buttress", "uncordon", out, "broken"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return sum(beside) / len(beside), sum(alone) / len(alone)


def main():
    made = parser(__doc__)
    made.add_argument("--cases", default=",".join(CASES))
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=10)
    options = made.parse_args()
    cache = pathlib.Path(os.environ["BUTTRESS_BENCH_CACHE"]) / "broken"
    cache.mkdir(parents=True, exist_ok=True)
    cold_start(cache, 1)
    out = cache / "run"
    shutil.rmtree(out, ignore_errors=True)
    settings = [f"run.steps={ENDLESS}", "run.lease_ms=3000", "run.lease_limit_ms=10000",
                "local.learner.stop_when.uninformative_steps=0"]
    job = subprocess.Popen(launch_command(out, cache, 1, settings), cwd=ROOT,
                           stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        while not (out / "steps.jsonl").exists() or len(steps_of(out)) < 5:
            if job.poll() is not None:
                raise SystemExit(f"the run ended before its fifth step; see {out}/logs")
            time.sleep(0.1)
        report = Report("broken", options.json)
        for case in options.cases.split(","):
            progress(case)
            report.add(case, "steps/s", *windows(out, case, options), "alone", True)
    finally:
        job.send_signal(signal.SIGINT)
        job.wait()


if __name__ == "__main__":
    main()
