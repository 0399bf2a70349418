"""What `buttress probe` expects of runs, and what their first steps have.

    bench/experiments/probe.py [--seeds 4] [--out runs/probe]

Five tasks with a start model each; every seed probes its run, then trains ten steps of 32 groups.
Prints a line a run; in the last column whether 0 is in the 95 % interval of the difference.
Needs build/release (deploy/build.sh).
"""

import json
import math
import shutil

from countdown import BIN, options_parser, run, steps_of

# Digits that come before the sum count, so that many rewards are neither 0 nor 1.
REWARD = '''
def digits(prompts, completions, answer, **fields):
    return [sum(a == b for a, b in zip(c, a_)) / max(len(c), len(a_), 1) if c != a_ else 1.0
            for c, a_ in zip(completions, answer)]
'''
COUNTDOWN = ["countdown", "--use-all", "--operators", "+-"]
SUMS = ["arithmetic", "--operators", "+-"]
# Task, steps of fine-tuning, settings of the run.
RUNS = {
    "countdown of 4, G = 8": ([*COUNTDOWN, "--numbers", 4], 400, ["run.sampling.group_size=8"]),
    "countdown of 4, 150 steps, G = 16":
        ([*COUNTDOWN, "--numbers", 4], 150, ["run.sampling.group_size=16"]),
    "countdown of 3, G = 4": ([*COUNTDOWN, "--numbers", 3], 400, ["run.sampling.group_size=4"]),
    "sums of 2 digits, G = 8":
        ([*SUMS, "--digits", 2], 400, ["run.sampling.group_size=8",
                                       "run.reward.verifier=arithmetic"]),
    "sums of 3 digits, partial credit, G = 8":
        ([*SUMS, "--digits", 3], 400, ["run.sampling.group_size=8",
                                       "run.reward.verifier=python:{data}/reward.py:digits"]),
}
STEPS, PROMPTS, NORMAL95 = 10, 32, 1.96


def make_start(data, task, sft_steps):
    if (data / "cold/model.safetensors").exists():
        return
    run(BIN / "buttress", "task", *task, "--format", "compact", "--out", data, "--train", 8000,
        "--held-out", 50, "--sft", 51200, "--seed", 1)
    run(BIN / "buttress", "new-model", "--out", data / "new", "--characters", "0123456789+-*/:>=",
        "--layers", 3, "--hidden", 96, "--heads", 3, "--intermediate", 256)
    run(BIN / "buttress", "sft", "--model", data / "new", "--data", data / "sft.jsonl", "--out",
        data / "cold", "--steps", sft_steps, "--batch", 128, "--lr", "3e-3", "--warmup", 20)
    (data / "reward.py").write_text(REWARD)


def compare(data, out, seed, settings):
    """The collapse rate that a probe expects, with its interval, and that of the first steps."""
    shutil.rmtree(out, ignore_errors=True)
    values = [setting.format(data=data) for setting in settings]
    values += [f"run.seed={seed}", f"run.data.prompts={data}/train.jsonl",
               f"run.data.held_out={data}/held_out.jsonl", f"run.model.path={data}/cold",
               f"local.out={out}", f"run.steps={STEPS}", f"run.batch.prompts={PROMPTS}",
               "run.batch.max_age=0", "run.algorithm.advantage=grpo"]
    arguments = ["configs/quickstart.yaml"]
    for value in values:
        arguments += ["--set", value]
    report = out.parent / f"{out.name}.json"
    report.write_text(run(BIN / "buttress", "probe", *arguments, "--json"))
    run(BIN / "buttress", "launch", *arguments, "--no-eval")
    probe = json.loads(report.read_text())
    expected = probe["acr"][str(probe["group_size"])]["rate"]
    groups = STEPS * PROMPTS
    observed = sum(step["acr"] for step in steps_of(out)) / STEPS
    toward = expected["high"] if observed > expected["mean"] else expected["low"]
    half = math.hypot(toward - expected["mean"],
                      NORMAL95 * math.sqrt(observed * (1 - observed) / groups))
    return expected, observed, abs(observed - expected["mean"]) <= half


def main():
    parser = options_parser("probe")
    parser.set_defaults(seeds=4)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    within = runs = 0
    for number, (name, (task, sft_steps, settings)) in enumerate(RUNS.items()):
        data = options.out / f"data-{number}"
        make_start(data, task, sft_steps)
        for seed in range(1, options.seeds + 1):
            expected, observed, is_within = compare(data, options.out / f"run-{number}-{seed}",
                                                    seed, settings)
            runs += 1
            within += is_within
            print(f"| {name} | {seed} | {100 * expected['mean']:.1f} ({100 * expected['low']:.1f} "
                  f"to {100 * expected['high']:.1f}) | {100 * observed:.1f} | "
                  f"{'yes' if is_within else 'no'} |", flush=True)
    print(f"{within} of {runs} within")


if __name__ == "__main__":
    main()
