"""The task and the start model of the experiments: those of deploy/quickstart.sh, for any seed."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"


def run(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


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


def accuracy(model, data):
    out = model / "eval.json"
    run(BIN / "buttress", "eval", "--model", model, "--prompts", data / "held_out.jsonl",
        "--verifier", "countdown", "--use-all", "--max-tokens", 8, "--json", "--out", out,
       )
    return json.loads(out.read_text())["accuracy"]
