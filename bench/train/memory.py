"""Holds the memory plan of a learner rank (lib/checks/learner_memory.h) against the most bytes of
tensors that its training steps hold: groups of 16 behind shared prompts, long contexts, with and
without recompute, float32, bfloat16 with float32 masters, and bfloat16 with stochastic rounding.
Ends with 1 where plan and steps differ by more than 10 %.

    bench/train/memory.py [--device cuda] [--cases half ...] [--quick]     needs bench_train
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import shapes

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/bench_train"
MIB = 2**20
MOST = 0.1  # that plan and steps differ, of what the steps take
PRECISIONS = {
    "float32": ["--dtype", "float32"],
    "fp32_master": ["--precision", "fp32_master"],
    "stochastic": ["--precision", "stochastic"],
}
# Completions of a group; tokens of a prompt, of a completion and of a micro-batch.
LOADS = {
    "short answers": (16, 20, 24, 2048),
    "shared prompts": (16, 512, 128, 2560),
    "long context": (2, 64, 2000, 2064),
}
QUICK = [("quickstart", "shared prompts", precision, recompute)
         for precision in ("float32", "fp32_master")
         for recompute in ("none", "selective", "block")]


def flags_of(load):
    group, prompt, completion, micro_batch = LOADS[load]
    # Two micro-batches of whole groups: the second comes on top of the gradients of the first.
    in_one = (micro_batch - prompt) // completion
    groups = 2 if in_one <= group else 2 * (micro_batch // (prompt + group * completion))
    return ["--fixed", "--groups", groups, "--group-size", group, "--most-prompt", prompt, "--most",
            completion, "--micro-batch-tokens", micro_batch, "--steps", 0]


def measure(program, folder, load, precision, recompute, device):
    command = [program, folder, "--device", device, *flags_of(load), *PRECISIONS[precision],
               "--recompute", recompute]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    return json.loads(done.stdout)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--cases", nargs="*", choices=list(shapes.CONFIGS),
                         default=["quickstart", "gemma", "experts"])
    options.add_argument("--loads", nargs="*", choices=list(LOADS), default=list(LOADS))
    options.add_argument("--precisions", nargs="*", choices=list(PRECISIONS),
                         default=list(PRECISIONS))
    options.add_argument("--program", default=BENCH)
    options.add_argument("--quick", action="store_true", help="the quickstart's model, one load")
    options.add_argument("--parts", action="store_true", help="the parts of each plan")
    options = options.parse_args()
    cases = QUICK if options.quick else [
        (case, load, precision, recompute) for case in options.cases for load in options.loads
        for precision in options.precisions for recompute in ("none", "selective", "block")]
    print(f"{'MiB':58} {'steps':>9} {'plan':>9} {'ratio':>7}")
    good = True
    for case, load, precision, recompute in cases:
        with tempfile.TemporaryDirectory() as folder:
            shapes.write_model(pathlib.Path(folder), case)
            row = measure(options.program, folder, load, precision, recompute, options.device)
        taken, planned = row["tensor_peak_bytes"], row["plan"]["peak"]
        holds = abs(planned - taken) <= MOST * taken
        good &= holds
        again = "" if recompute == "none" else ", recompute " + recompute
        what = f"{case}, {load}, {precision}{again}"
        print(f"{what:58} {taken / MIB:9.2f} {planned / MIB:9.2f} {planned / taken:7.3f}"
              f"{'' if holds else '  off'}", flush=True)
        if options.parts:
            parts = {name: round(b / MIB, 2) for name, b in row["plan"]["parts"].items()}
            print(f"    state {row['state_bytes'] / MIB:.2f}; {parts}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
