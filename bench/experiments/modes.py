"""Held-out accuracy of GRPO, AVSPO noise and AVSPO opposite over seeds, at equal wall time.

    bench/experiments/modes.py [--seeds 5] [--seconds 60] [--out runs/modes]

Every run is stopped the same number of seconds after its first step, and the newest published
weights are evaluated. Each seed has problems, cold start and RL of its own, shared by the modes.
Needs build/release (deploy/build.sh). Prints a line a run and a table; writes results.json. """

import argparse
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import time

from countdown import BIN, ROOT, accuracy, cold_start

MODES = {
    "grpo": ["run.algorithm.advantage=grpo"],
    "avspo noise": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=noise"],
    "avspo opposite": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=opposite"],
}
ENDLESS = 1000000


def train(out, data, seed, mode, seconds):
    shutil.rmtree(out, ignore_errors=True)
    sets = MODES[mode] + [
        f"run.seed={seed}", f"run.steps={ENDLESS}", f"run.data.prompts={data}/train.jsonl",
        f"run.model.path={data}/cold", f"local.out={out}",
    ]
    command = [BIN / "buttress", "launch", "configs/quickstart.yaml", "--no-eval"]
    for value in sets:
        command += ["--set", value]
    job = subprocess.Popen([str(c) for c in command],
                           cwd=ROOT,
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.STDOUT)
    steps = out / "steps.jsonl"
    while not (steps.exists() and steps.stat().st_size):
        if job.poll() is not None:
            raise SystemExit(f"{out}: the run ended before its first step; see {out}/logs")
        time.sleep(0.05)
    time.sleep(seconds)
    job.send_signal(signal.SIGINT)
    job.wait()
    newest = max((out / "weights").glob("v*"), key=lambda p: int(p.name.rsplit("-", 1)[1]))
    model = out / "trained"
    shutil.copytree(data / "cold", model)
    shutil.copy(newest / "model.safetensors", model)
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    last = rows[-50:]
    return {
        "accuracy_before": accuracy(data / "cold", data), "accuracy_after": accuracy(model, data),
        "steps": len(rows), "acr_end": statistics.mean(s["acr"] for s in last),
        "entropy_end": statistics.mean(s["entropy"] for s in last),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/modes")
    options = parser.parse_args()
    rows = []
    for seed in range(1, options.seeds + 1):
        data = options.out / f"data-{seed}"
        cold_start(data, seed)
        for mode in MODES:
            out = options.out / f"{mode.replace(' ', '-')}-{seed}"
            row = {"mode": mode, "seed": seed, **train(out, data, seed, mode, options.seconds)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    (options.out / "results.json").write_text(json.dumps(rows, indent=1))
    print("\n| mode | steps | before | after | gain | ACR at the end | entropy at the end"
          " |\n|---|---|---|---|---|---|---|")
    for mode in MODES:
        mine = [r for r in rows if r["mode"] == mode]

        def column(values):
            return (f"{statistics.mean(values):.1f} ±"
                    f" {statistics.stdev(values) if len(values) > 1 else 0:.1f}")

        print(f"| {mode} | {statistics.mean(r['steps'] for r in mine):.0f} |"
              f" {column([100 * r['accuracy_before'] for r in mine])} |"
              f" {column([100 * r['accuracy_after'] for r in mine])} |"
              f" {column([100 * (r['accuracy_after'] - r['accuracy_before']) for r in mine])} |"
              f" {statistics.mean(r['acr_end'] for r in mine):.2f} |"
              f" {statistics.mean(r['entropy_end'] for r in mine):.2f} |")


main()
