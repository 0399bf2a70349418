"""Held-out accuracy of GRPO, AVSPO noise and AVSPO opposite over seeds, at equal wall time.

    bench/experiments/modes.py [--seeds 5] [--seconds 60] [--out runs/modes]

Every run is stopped the same number of seconds after its first step, and the newest published
weights are evaluated. Prints a line a run and a table; writes results.json.
"""

import shutil
import signal
import statistics
import subprocess
import time

from countdown import (ROOT, accuracy, column, launch_command, options_parser, run_variants,
                       steps_of)

MODES = {
    "grpo": ["run.algorithm.advantage=grpo"],
    "avspo noise": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=noise"],
    "avspo opposite": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=opposite"],
}
ENDLESS = 1000000


def run_for(seconds, out, command):
    """Interrupts the run that many seconds after its first step."""
    job = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    steps = out / "steps.jsonl"
    while not (steps.exists() and steps.stat().st_size):
        if job.poll() is not None:
            raise SystemExit(f"{out}: the run ended before its first step; see {out}/logs")
        time.sleep(0.05)
    time.sleep(seconds)
    job.send_signal(signal.SIGINT)
    job.wait()


def newest_model(out, data):
    newest = max((out / "weights").glob("v*"), key=lambda p: int(p.name.rsplit("-", 1)[1]))
    model = out / "trained"
    shutil.copytree(data / "cold", model)
    shutil.copy(newest / "model.safetensors", model)
    return model


def main():
    parser = options_parser("modes")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()

    def train(out, data, seed, settings):
        command = launch_command(out, data, seed, [*settings, f"run.steps={ENDLESS}"])
        run_for(options.seconds, out, command)
        steps = steps_of(out)
        last = steps[-50:]
        return {
            "accuracy_before": accuracy(data / "cold", data),
            "accuracy_after": accuracy(newest_model(out, data), data), "steps": len(steps),
            "acr_end": statistics.mean(s["acr"] for s in last),
            "entropy_end": statistics.mean(s["entropy"] for s in last),
        }

    results = list(run_variants(options, MODES, train))
    print("\n| mode | steps | before | after | gain | ACR at the end | entropy at the end"
          " |\n|---|---|---|---|---|---|---|")
    for mode, rows in results:
        before, after = ([100 * r[key] for r in rows]
                         for key in ("accuracy_before", "accuracy_after"))
        gain = [a - b for a, b in zip(after, before)]
        print(f"| {mode} | {statistics.mean(r['steps'] for r in rows):.0f} |"
              f" {column(before, 1)} | {column(after, 1)} | {column(gain, 1)} |"
              f" {statistics.mean(r['acr_end'] for r in rows):.2f} |"
              f" {statistics.mean(r['entropy_end'] for r in rows):.2f} |")


main()
