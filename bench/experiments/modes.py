"""Held-out accuracy of GRPO, AVSPO noise and AVSPO opposite over seeds, at equal wall time.

    bench/experiments/modes.py [--seeds 5] [--seconds 60] [--out runs/modes]

A pilot of each mode on the first seed gives its pace; every run then has as many steps as fit into the time. Each seed has problems, cold
start and RL of its own, shared by the modes. Needs build/release (deploy/build.sh). Prints a line a run and a table; writes results.json.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
MODES = {
    "grpo": ["run.algorithm.advantage=grpo"],
    "avspo noise": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=noise"],
    "avspo opposite": ["run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=opposite"],
}
PILOT_STEPS = 60


def run(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def cold_start(folder, seed):
    if (folder / "cold/model.safetensors").exists():
        return
    run(BIN / "buttress", "task", "countdown", "--out", folder, "--numbers", 4, "--operators", "+-", "--use-all", "--format", "compact",
        "--train", 32768, "--held-out", 1000, "--sft", 51200, "--seed", seed)
    run(BIN / "buttress", "new-model", "--out", folder / "new", "--characters", "0123456789+-:>", "--layers", 3, "--hidden", 96,
        "--heads", 3, "--intermediate", 256)
    run(BIN / "buttress", "sft", "--model", folder / "new", "--data", folder / "sft.jsonl", "--out", folder / "cold", "--steps", 400,
        "--batch", 128, "--lr", "3e-3", "--warmup", 20, "--seed", seed)


def train(out, data, seed, mode, steps, evaluate=True):
    sets = MODES[mode] + [f"run.seed={seed}", f"run.steps={steps}", f"run.data.prompts={data}/train.jsonl",
                          f"run.data.held_out={data}/held_out.jsonl", f"run.model.path={data}/cold", f"local.out={out}"]
    command = [BIN / "buttress", "launch", "configs/quickstart.yaml", "--fresh"] + ([] if evaluate else ["--no-eval"])
    for value in sets:
        command += ["--set", value]
    run(*command)
    summary = json.loads((out / "summary.json").read_text())
    last = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()[-50:]]
    summary["entropy_end"] = statistics.mean(s["entropy"] for s in last)
    summary["acr_end"] = statistics.mean(s["acr"] for s in last)
    return summary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/modes")
    options = parser.parse_args()
    rows = []
    steps = {}
    for seed in range(1, options.seeds + 1):
        data = options.out / f"data-{seed}"
        cold_start(data, seed)
        for mode in MODES:
            name = mode.replace(" ", "-")
            if mode not in steps:
                pilot = train(options.out / f"pilot-{name}", data, seed, mode, PILOT_STEPS, evaluate=False)
                steps[mode] = max(1, round(options.seconds / pilot["wall_seconds"] * PILOT_STEPS))
            summary = train(options.out / f"{name}-{seed}", data, seed, mode, steps[mode])
            row = {"mode": mode, "seed": seed, **{k: summary[k] for k in (
                "accuracy_before", "accuracy_after", "steps", "wall_seconds", "acr", "acr_end", "entropy_end")}}
            rows.append(row)
            print(json.dumps(row), flush=True)
    (options.out / "results.json").write_text(json.dumps(rows, indent=1))
    print(f"\n| mode | steps | seconds | before | after | gain | ACR at the end | entropy at the end |\n|---|---|---|---|---|---|---|---|")
    for mode in MODES:
        mine = [r for r in rows if r["mode"] == mode]

        def column(key):
            values = [100 * r[key] for r in mine]
            return f"{statistics.mean(values):.1f} ± {statistics.stdev(values) if len(values) > 1 else 0:.1f}"

        gains = [100 * (r["accuracy_after"] - r["accuracy_before"]) for r in mine]
        print(f"| {mode} | {steps[mode]} | {statistics.mean(r['wall_seconds'] for r in mine):.0f} | {column('accuracy_before')} "
              f"| {column('accuracy_after')} | {statistics.mean(gains):.1f} | {statistics.mean(r['acr_end'] for r in mine):.2f} "
              f"| {statistics.mean(r['entropy_end'] for r in mine):.2f} |")


main()
