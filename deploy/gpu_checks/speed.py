"""Tokens per second, share of the peak and memory of training steps, next to transformers."""
import json
import os
import pathlib
import subprocess
import sys

from gpu_checks.machine import ROOT, Failed, Skipped

sys.path.insert(0, str(ROOT / "bench/train"))
import shapes  # noqa: E402

STEPS = 5
# Dense bfloat16 with float32 sums, TFLOP/s, from NVIDIA's data sheets; the longest name counts.
PEAKS = {
    "A100": 312, "H100": 989, "H100 PCIe": 756, "H100 NVL": 835, "H200": 989, "GH200": 989,
    "H20": 148, "H800": 989, "B200": 2250, "L4": 121, "L40": 181, "L40S": 362, "A10": 125,
    "RTX 4090": 165, "RTX 5090": 209,
}


def case_of(machine):
    return "qwen3-0.6b" if machine.device == "cuda" else "tiny"


def peak_flops(machine):
    """Returns the peak of the first GPU; None if its name is not in the table."""
    name = machine.gpus[0].split(": ")[-1] if machine.gpus else ""
    known = [one for one in PEAKS if f" {one} " in f" {name.split(',')[0]} ".replace("-", " ")]
    return PEAKS[max(known, key=len)] * 1e12 if known else None


def describe(machine, row, flops, product_flops):
    """`flops` are operations per second."""
    peak = peak_flops(machine)
    mfu = f"MFU {flops / peak:.1%}, " if peak else ""
    return (f"{row['tokens_per_second']:,.0f} tok/s, {mfu}{flops / product_flops:.1%} of a matrix "
            f"product, {row['peak_bytes'] / 2**20:,.0f} MiB")


def measure(machine):
    """Returns the folder of the model and what bench_train measures."""
    program = machine.bin / "bench_train"
    if not program.exists():
        raise Skipped("bench_train is not built; deploy/build.sh release bench_train")
    case = case_of(machine)
    folder = machine.folder / case
    shapes.write_model(folder, case)
    rows = machine.json_rows(program, folder, "--device", machine.device,
                             *shapes.load_flags(case), "--steps", STEPS, "--threads",
                             os.cpu_count())
    return folder, rows[0]


def ours(machine):
    folder, row = measure(machine)
    machine.measured = row
    load = shapes.LOADS[folder.name]
    whole = sum(row["phases"].values())
    phases = ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in row["phases"].items())
    plan, state = row["plan"], row["state_bytes"] / 2**20
    passes = row["tensor_peak_bytes"] / 2**20 - state
    return (f"{folder.name}, groups of {load['group_size']}, {load['least']} to {load['most']} "
            f"tokens: " + describe(machine, row, row["flops"], row["product_flops"]) +
            f" ({phases}; weights and optimizer {state:,.0f} MiB, gradients and passes "
            f"{passes:,.0f} MiB, {plan['peak'] / row['tensor_peak_bytes']:.2f} of it planned)")


def peer_python(device):
    """Returns a Python that can run transformers on the device."""
    usual = pathlib.Path.home() / ".cache/buttress/bench/venv"
    python = f"{os.environ.get('BUTTRESS_PEERS', usual)}/bin/python"
    ready = "torch.cuda.is_available()" if device == "cuda" else "True"
    code = f"import sys, torch, transformers; sys.exit(0 if {ready} else 1)"
    try:
        found = subprocess.run([python, "-c", code], capture_output=True, check=False).returncode
    except OSError:
        found = 1
    if found != 0:
        raise Skipped(f"{python} has no torch and transformers for {device}; name a Python "
                      "environment that has, in BUTTRESS_PEERS")
    return python


def beside_transformers(machine):
    mine = getattr(machine, "measured", None)
    if mine is None:
        raise Skipped("the speed of training was not measured")
    case = case_of(machine)
    printed = machine.run(peer_python(machine.device), ROOT / "bench/train/transformers_step.py",
                          machine.folder / case, machine.device, os.cpu_count(),
                          shapes.LOADS[case]["micro_batch_tokens"], stdin=json.dumps(mine))
    row = json.loads(printed)
    if not row["tokens_per_second"] > 0:
        raise Failed(f"transformers printed {row}")
    flops = row["tokens_per_second"] * mine["flops_per_token"]
    times = mine["tokens_per_second"] / row["tokens_per_second"]
    theirs = describe(machine, row, flops, mine["product_flops"])
    return f"transformers: {theirs}; Buttress {times:.2f} times as fast"
