"""Compares training steps, without generation, with transformers in mixed precision, in bfloat16
with float32 masters: groups of completions behind shared prompts, whose lengths are drawn anew for
each step; log-probs and entropy of the completions, backward pass, clipping and AdamW. Tokens are
those of prompts, once for a group, and of completions. Memory is the peak of the tensors on a GPU,
and of the process on a CPU. `share` is the rate of the model's operations, counted with shared
prompts once, over that of a product of large matrices in the same run; the peer's counts the same
operations."""

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


def run(command, text=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          input=text, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout)


def main():
    options = parser(__doc__)
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--cases", nargs="*", default=["tiny"], choices=list(shapes.LOADS))
    options.add_argument("--steps", type=int, default=5)
    options = options.parse_args()
    report = Report("train", options.json)
    threads = os.cpu_count()
    for case in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            shapes.write_model(pathlib.Path(folder), case)
            mine = run([models.BIN / "bench_train", folder, "--device", options.device,
                        *shapes.load_flags(case), "--steps", options.steps, "--threads", threads])
            theirs = run([sys.executable, HERE / "transformers_step.py", folder, options.device,
                          threads, shapes.LOADS[case]["micro_batch_tokens"]], json.dumps(mine))
        load, rate = shapes.LOADS[case], theirs["tokens_per_second"]
        name = f"{case} {load['groups']} x {load['group_size']} x {load['least']}-{load['most']}"
        report.add(name, "tok/s", mine["tokens_per_second"], rate, "transformers", True)
        report.add(name, "MiB", mine["peak_bytes"] / 2**20, theirs["peak_bytes"] / 2**20,
                   "transformers", False)
        report.add(name, "share", mine["share"],
                   rate * mine["flops_per_token"] / mine["product_flops"], "transformers", True)


if __name__ == "__main__":
    main()
