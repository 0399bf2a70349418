"""Experiments on the quickstart recipe (deploy/quickstart.sh): variants of its settings over seeds.

Each seed has problems, a cold start and RL of its own; the variants share problems and cold start.
Experiments need build/release (deploy/build.sh).
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"


def run(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def cold_start(folder, seed):
    if (folder / "cold/model.safetensors").exists():
        return
    run(BIN / "buttress", "task", "countdown", "--out", folder, "--numbers", 4, "--operators", "+-",
        "--use-all", "--format", "compact", "--train", 32768, "--held-out", 1000, "--sft", 51200,
        "--seed", seed,
       )
    run(BIN / "buttress", "new-model", "--out", folder / "new", "--characters", "0123456789+-:>",
        "--layers", 3, "--hidden", 96, "--heads", 3, "--intermediate", 256,
       )
    run(BIN / "buttress", "sft", "--model", folder / "new", "--data", folder / "sft.jsonl", "--out",
        folder / "cold", "--steps", 400, "--batch", 128, "--lr", "3e-3", "--warmup", 20, "--seed",
        seed,
       )


def launch_command(out, data, seed, settings):
    """A run of the recipe with settings KEY=VALUE of its own."""
    command = [BIN / "buttress", "launch", "configs/quickstart.yaml", "--no-eval"]
    for value in [*settings, f"run.seed={seed}", f"run.data.prompts={data}/train.jsonl",
                  f"run.data.held_out={data}/held_out.jsonl", f"run.model.path={data}/cold",
                  f"local.out={out}"]:
        command += ["--set", value]
    return [str(c) for c in command]


def steps_of(out):
    return [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]


def options_parser(name):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs" / name)
    return parser


def run_variants(options, variants, train):
    """Yields each variant with the results of its seeds. `variants` are settings by name, and
    train(out, data, seed, settings) returns the numbers of one run. Prints a line a run, and
    writes all of them to results.json."""
    rows = []
    for seed in range(1, options.seeds + 1):
        data = options.out / f"data-{seed}"
        cold_start(data, seed)
        for name, settings in variants.items():
            out = options.out / f"{re.sub('[ ,]+', '-', name)}-{seed}"
            shutil.rmtree(out, ignore_errors=True)
            rows.append({"variant": name, "seed": seed, **train(out, data, seed, settings)})
            print(json.dumps(rows[-1]), flush=True)
    (options.out / "results.json").write_text(json.dumps(rows, indent=1))
    for name in variants:
        yield name, [row for row in rows if row["variant"] == name]


def column(values, digits):
    """Mean and standard deviation."""
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def accuracy(model, data):
    out = model / "eval.json"
    run(BIN / "buttress", "eval", "--model", model, "--prompts", data / "held_out.jsonl",
        "--verifier", "countdown", "--use-all", "--max-tokens", 8, "--json", "--out", out,
       )
    return json.loads(out.read_text())["accuracy"]
