"""Compares training steps, without generation, with transformers in mixed precision: forward,
backward, clipping and AdamW on one packed micro-batch of random tokens, in bfloat16 with float32
masters. Memory is the peak of the tensors on a GPU, and of the process on a CPU. `share` is the
rate of the model's operations over that of a product of large matrices in the same run; the peer's
counts the same operations."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models
from report import Report, parser

import shapes

HERE = pathlib.Path(__file__).resolve().parent


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout)


def main():
    options = parser(__doc__)
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--cases", nargs="*", default=["tiny"], choices=list(shapes.CONFIGS))
    options.add_argument("--steps", type=int, default=5)
    options = options.parse_args()
    report = Report("train", options.json)
    threads = os.cpu_count()
    for case in options.cases:
        sequences, length = shapes.LOADS[case]
        with tempfile.TemporaryDirectory() as folder:
            shapes.write_model(pathlib.Path(folder), case)
            mine = run([models.BIN / "bench_train", folder, "--device", options.device,
                        "--sequences", sequences, "--length", length, "--steps", options.steps,
                        "--threads", threads])
            theirs = run([sys.executable, HERE / "transformers_step.py", folder, options.device,
                          sequences, length, options.steps, threads])
        name, rate = f"{case} {sequences} x {length}", theirs["tokens_per_second"]
        report.add(name, "tok/s", mine["tokens_per_second"], rate, "transformers", True)
        report.add(name, "MiB", mine["peak_bytes"] / 2**20, theirs["peak_bytes"] / 2**20,
                   "transformers", False)
        report.add(name, "share", mine["share"],
                   rate * mine["flops_per_token"] / mine["product_flops"], "transformers", True)


if __name__ == "__main__":
    main()
