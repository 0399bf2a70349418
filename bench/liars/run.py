"""Steps per second of a run beside a worker that lies (tests/support/liar.cc), and of the same run
alone: for each case of the liar, windows with and without it take turns in one run of the
quickstart recipe. Needs the program `liar` in build/release (ninja -C build/release liar)."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from experiments.countdown import BIN, ROOT, cold_start, launch_command, steps_of
from report import Report, parser, progress

CASES = ["groups", "strangers", "names", "streams", "hoard", "turncoat", "connections", "metrics"]
ENDLESS = 1000000


def steps_in(out, seconds):
    """Steps per second of the next window."""
    begin, first = time.monotonic(), len(steps_of(out))
    time.sleep(seconds)
    return (len(steps_of(out)) - first) / (time.monotonic() - begin)


def windows(out, case, options):
    """The mean rates beside the liar and alone."""
    beside, alone = [], []
    for _ in range(options.rounds):
        alone.append(steps_in(out, options.seconds))
        command = ["nice", "-n", str(options.nice), BIN / "liar", out, case]
        liar = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        beside.append(steps_in(out, options.seconds))
        liar.send_signal(signal.SIGTERM)
        liar.wait()
    return sum(beside) / len(beside), sum(alone) / len(alone)


def main():
    made = parser(__doc__)
    made.add_argument("--cases", default=",".join(CASES))
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=10)
    made.add_argument("--nice", type=int, default=0,
                      help="of the liar; 19 leaves the processors to the run on a small machine")
    options = made.parse_args()
    cache = pathlib.Path(os.environ["BUTTRESS_BENCH_CACHE"]) / "liars"
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
        report = Report("liars", options.json)
        for case in options.cases.split(","):
            progress(case)
            report.add(case, "steps/s", *windows(out, case, options), "alone", True)
    finally:
        job.send_signal(signal.SIGINT)
        job.wait()


if __name__ == "__main__":
    main()
