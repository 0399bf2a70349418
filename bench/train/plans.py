"""Prints tables of docs/gpu.md from the memory plan (lib/checks/learner_memory.h): for models and
numbers of GPUs the settings of the learner with the least cost that fit into a GPU, for
micro-batches of 16,384 tokens: groups of 16 with prompts of 512 tokens and completions of 2,048.
With `--longest`, the longest completion that fits where ranks divide the rows of a sequence.

    bench/train/plans.py [--longest]           needs bench_train; no GPU
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import shapes

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/bench_train"
GIB = 2**30
GPUS = {"H100": 79.2, "H200": 139.8}  # GiB that the driver shows
MODELS = ["qwen3-0.6b", "qwen2.5-1.5b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b"]
RANKS = [1, 4, 8, 16, 32]
LOAD = ["--group-size", 16, "--most-prompt", 512, "--most", 2048, "--micro-batch-tokens", 16384]


def plan(folder, ranks, precision, recompute, zero, load=LOAD):
    command = [BENCH, folder, "--device", "cuda", "--plan", ranks, "--zero", zero, "--precision",
               precision, "--recompute", recompute, *load]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=True)
    row = json.loads(done.stdout)
    return (row["peak"] + row["parts"].get("libraries", 0)) / GIB


def cheapest(folder, ranks, has):
    """Arithmetic costs more than messages, and rounding of the optimizer more than either."""
    for precision, recompute, zero in itertools.product(["fp32_master", "stochastic"],
                                                        ["none", "selective", "block"], range(4)):
        if ranks == 1 and zero > 0:
            continue
        needs = plan(folder, ranks, precision, recompute, zero)
        if needs <= has:
            return (f"zero {zero}{'' if recompute == 'none' else ', ' + recompute}"
                    f"{', stochastic' if precision == 'stochastic' else ''}: {needs:.0f}")
    return "-"


def longest(folder, context, recompute, has):
    """In steps of 1,024 tokens, alone behind a prompt of 512."""
    fits, exceeds = 0, 4096
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        needs = plan(folder, 8, "fp32_master", recompute, 3,
                     ["--group-size", 1, "--most-prompt", 512, "--most", 1024 * middle,
                      "--micro-batch-tokens", 1, "--context-parallel", context])
        fits, exceeds = (middle, exceeds) if needs <= has else (fits, middle)
    return f"{1024 * fits:,}"


def show_longest(case="qwen2.5-7b"):
    print("| `context_parallel` | `recompute` |",
          " | ".join(f"{name}, {has:.0f} GiB" for name, has in GPUS.items()), "|")
    print("|---|---|" + "---|" * len(GPUS))
    with tempfile.TemporaryDirectory() as folder:
        shapes.write_model(pathlib.Path(folder), case)
        for recompute, context in itertools.product(["selective", "block"], [1, 2, 4]):
            cells = [longest(folder, context, recompute, has) for has in GPUS.values()]
            print(f"| {context} | `{recompute}` | {' | '.join(cells)} |", flush=True)


def main():
    if sys.argv[1:] == ["--longest"]:
        return show_longest()
    print("| model | GPUs |", " | ".join(f"{name}, {has:.0f} GiB" for name, has in GPUS.items()),
          "|")
    print("|---|---|" + "---|" * len(GPUS))
    for case in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            shapes.write_model(pathlib.Path(folder), case)
            for ranks in RANKS:
                cells = [cheapest(folder, ranks, has) for has in GPUS.values()]
                print(f"| {case} | {ranks} | {' | '.join(cells)} |", flush=True)
                if all(cell.startswith("zero 0:") for cell in cells):
                    break


if __name__ == "__main__":
    main()
