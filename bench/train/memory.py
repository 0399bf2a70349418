"""Holds the memory plan of a learner rank (lib/checks/learner_memory.h) against the most bytes of
tensors that its training steps hold, of several ranks on the one that holds most: groups of 16
behind shared prompts, long contexts, with and without recompute, float32, bfloat16 with float32
masters, bfloat16 with stochastic rounding, and adapters. Ends with 1 where plan and steps differ by
more than 10 %.

    bench/train/memory.py [--device cuda] [--cases half ...] [--ranks 1 2 4 --stages 0 1 2 3]
                          [--lora-ranks 0 8 --lora-targets all q_proj] [--quick]   needs bench_train
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

import shapes

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/bench_train"
MIB = 2**20
MOST = 0.1  # that plan and steps differ, of what the steps take
PRECISIONS = {
    "float32": ["--dtype", "float32"],
    "fp32_master": ["--precision", "fp32_master"],
    "stochastic": ["--precision", "stochastic"],
}
RECOMPUTES = ["none", "selective", "block"]
# Completions of a group; tokens of a prompt, of a completion and of a micro-batch.
LOADS = {
    "short answers": (16, 20, 24, 2048),
    "shared prompts": (16, 512, 128, 2560),
    "long context": (2, 64, 2000, 2064),
    "few tokens": (4, 16, 32, 144),
}


class Case(NamedTuple):
    """What is trained, and how."""
    model: str
    load: str
    precision: str
    recompute: str = "none"
    ranks: int = 1
    stage: int = 0
    lora_rank: int = 0
    lora_target: str = "all"
    context: int = 1

    def runs(self):
        """One rank divides nothing, and adapters are float32 whatever the precision."""
        return ((self.ranks > 1 or self.stage == 0)
                and (self.precision != "stochastic" if self.lora_rank > 0 else
                     self.lora_target == "all"))

    def __str__(self):
        parts = [self.model, self.load, self.precision]
        if self.recompute != "none":
            parts.append("recompute " + self.recompute)
        if self.ranks > 1:
            parts.append(f"{self.ranks} ranks, zero {self.stage}")
        if self.context > 1:
            parts.append(f"{self.context} divide rows")
        if self.lora_rank > 0:
            parts.append(f"LoRA {self.lora_rank} of {self.lora_target}")
        return ", ".join(parts)


QUICK = [
    *(Case("quickstart", "shared prompts", precision, recompute)
      for precision in ("float32", "fp32_master") for recompute in RECOMPUTES),
    Case("quickstart", "few tokens", "fp32_master", ranks=2, stage=3),
    Case("experts", "shared prompts", "float32", ranks=2, context=2),
    Case("experts", "long context", "float32", ranks=2, context=2),
    Case("quickstart", "shared prompts", "fp32_master", lora_rank=8, lora_target="q_proj"),
]


def flags_of(case):
    group, prompt, completion, micro_batch = LOADS[case.load]
    # Three micro-batches of whole groups or more: the second comes on top of the gradients of the
    # first, and the third, of several ranks, on top of two sums.
    in_one = (micro_batch - prompt) // completion
    groups = 3 if in_one <= group else 3 * (micro_batch // (prompt + group * completion))
    lora = ["--lora-rank", case.lora_rank, "--lora-target", case.lora_target]
    return ["--fixed", "--groups", case.ranks // case.context * groups, "--group-size", group,
            "--most-prompt", prompt, "--most", completion, "--micro-batch-tokens", micro_batch,
            "--steps", 0, *PRECISIONS[case.precision], "--recompute", case.recompute,
            "--zero", case.stage, "--context-parallel", case.context,
            *(lora if case.lora_rank > 0 else [])]


def measure(program, case, device):
    ranks = [] if case.ranks == 1 else ["mpirun", "--allow-run-as-root", "--oversubscribe",
                                        "--bind-to", "none", "-np", case.ranks]
    with tempfile.TemporaryDirectory() as folder:
        shapes.write_model(pathlib.Path(folder), case.model)
        command = [*ranks, program, folder, "--device", device, *flags_of(case)]
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
    options.add_argument("--recomputes", nargs="*", choices=RECOMPUTES, default=RECOMPUTES)
    options.add_argument("--ranks", nargs="*", type=int, default=[1])
    options.add_argument("--stages", nargs="*", type=int, choices=range(4), default=[0])
    options.add_argument("--lora-ranks", nargs="*", type=int, default=[0])
    options.add_argument("--lora-targets", nargs="*", default=["all"])
    options.add_argument("--program", default=BENCH)
    options.add_argument("--quick", action="store_true", help="the quickstart's model, few cases")
    options.add_argument("--parts", action="store_true", help="the parts of each plan")
    options = options.parse_args()
    cases = QUICK if options.quick else [
        Case(*values) for values in itertools.product(
            options.cases, options.loads, options.precisions, options.recomputes, options.ranks,
            options.stages, options.lora_ranks, options.lora_targets)]
    print(f"{'MiB':78} {'steps':>9} {'plan':>9} {'ratio':>7}")
    good = True
    for case in filter(Case.runs, cases):
        row = measure(options.program, case, options.device)
        taken, planned = row["tensor_peak_bytes"], row["plan"]["peak"]
        holds = abs(planned - taken) <= MOST * taken
        good &= holds
        print(f"{str(case):78} {taken / MIB:9.2f} {planned / MIB:9.2f} {planned / taken:7.3f}"
              f"{'' if holds else '  off'}", flush=True)
        if options.parts:
            parts = {name: round(b / MIB, 2) for name, b in row["plan"]["parts"].items()}
            print(f"    state {row['state_bytes'] / MIB:.2f}; {parts}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
