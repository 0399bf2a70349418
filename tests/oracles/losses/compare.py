"""Compares losses with those of verl and TRL: compare.py PROGRAM WHEEL_FOLDER [BATCHES] (run.sh).

The peers' losses are executed from their own packages on random batches, in float64; Buttress
computes in float32, as the learner does. Loss values and gradients must agree to 2e-5 of the
largest.
"""
import json
import random
import subprocess
import sys

import torch

import cases
import verl_module
from batches import draw, to_line

PROGRAM, WHEEL = sys.argv[1], sys.argv[2]
BATCHES = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
TOLERANCE = 2e-5


def main():
    from trl.trainer.grpo_trainer import GRPOTrainer
    core, corr = verl_module.load(WHEEL)
    table = cases.verl_cases(core, corr, verl_module.ActorConfig) + cases.trl_cases(GRPOTrainer)
    cases.check_complete(core, GRPOTrainer, table)
    rng = random.Random(20260101)
    work = [(case, draw(rng, case)) for case in (table[i % len(table)] for i in range(BATCHES))]
    lines = subprocess.run([PROGRAM],
                           input="\n".join(to_line(*item) for item in work) + "\n",
                           capture_output=True,
                           text=True)
    if lines.returncode != 0:
        sys.exit(lines.stderr)
    worst = {case.name: (0.0, 0) for case in table}
    failures = 0
    for (case, batch), line in zip(work, lines.stdout.splitlines(), strict=True):
        ours = json.loads(line)
        lp = batch.lp.clone().requires_grad_(True)
        theirs = case.theirs(batch, lp)
        theirs.backward()
        gradient = lp.grad[batch.mask.bool()]
        scale = max(1.0, gradient.abs().max().item(), abs(theirs.item()))
        error = (gradient - torch.tensor(ours["gradient"]).double()).abs().max().item() / scale
        if case.values:
            error = max(error, abs(theirs.item() - ours["loss"]) / scale)
        largest, count = worst[case.name]
        worst[case.name] = (max(largest, error), count + 1)
        if error > TOLERANCE:
            failures += 1
            if failures <= 5:
                print(
                    f"DIFFERS {case.name}: {error:.3g}; theirs {theirs.item():.9g} "
                    f"ours {ours['loss']:.9g}\n  {to_line(case, batch)}\n"
                    f"  theirs {gradient.tolist()}\n  ours   {ours['gradient']}")
    for case in table:
        error, count = worst[case.name]
        print(f"{case.name:50} {count:6} batches   largest difference {error:.2g}" +
              (f"   (gradients: {case.why})" if case.why else ""))
    print(f"{BATCHES} batches, {failures} differ by more than {TOLERANCE:g}")
    sys.exit(1 if failures else 0)


main()
