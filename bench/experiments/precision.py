"""Learning curves of the quickstart recipe in float32 and in bfloat16 with either precision of the
optimizer, over seeds.

    bench/experiments/precision.py [--seeds 5] [--steps 400] [--out runs/precision]

Each seed has problems, cold start and RL of its own, shared by the precisions. Needs build/release
(deploy/build.sh). Prints a line a run, the mean reward over parts of the run, and the accuracy on
held-out problems; writes results.json. """

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess

from countdown import BIN, ROOT, accuracy, cold_start

PRECISIONS = {
    "float32": ["run.model.dtype=float32"],
    "bfloat16, fp32_master": ["run.model.dtype=bfloat16", "run.optim.precision=fp32_master"],
    "bfloat16, stochastic": ["run.model.dtype=bfloat16", "run.optim.precision=stochastic"],
}
PARTS = 8


def train(out, data, seed, precision, steps):
    shutil.rmtree(out, ignore_errors=True)
    command = [BIN / "buttress", "launch", "configs/quickstart.yaml", "--no-eval"]
    for value in PRECISIONS[precision] + [
            f"run.seed={seed}", f"run.steps={steps}", f"run.data.prompts={data}/train.jsonl",
            f"run.model.path={data}/cold", f"local.out={out}",
    ]:
        command += ["--set", value]
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{out}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    rewards = [row["reward_mean"] for row in rows]
    part = max(1, len(rewards) // PARTS)
    return {
        "accuracy_before": accuracy(data / "cold", data),
        "accuracy_after": accuracy(out / "model", data), "steps": len(rows),
        "curve": [statistics.mean(rewards[i * part:(i + 1) * part]) for i in range(PARTS)],
    }


def column(values):
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.2f} ± {spread:.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/precision")
    options = parser.parse_args()
    rows = []
    for seed in range(1, options.seeds + 1):
        data = options.out / f"data-{seed}"
        cold_start(data, seed)
        for precision in PRECISIONS:
            out = options.out / f"{precision.replace(', ', '-')}-{seed}"
            result = train(out, data, seed, precision, options.steps)
            rows.append({"precision": precision, "seed": seed, **result})
            print(json.dumps(rows[-1]), flush=True)
    (options.out / "results.json").write_text(json.dumps(rows, indent=1))
    print("\n| precision |" + "".join(f" part {i + 1} |" for i in range(PARTS)) + " held out |\n|" +
          "---|" * (PARTS + 2))
    for precision in PRECISIONS:
        mine = [row for row in rows if row["precision"] == precision]
        curve = [column([row["curve"][i] for row in mine]) for i in range(PARTS)]
        print(f"| {precision} | " + " | ".join(curve) +
              f" | {column([row['accuracy_after'] for row in mine])} |")


main()
