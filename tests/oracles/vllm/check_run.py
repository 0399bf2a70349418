"""What run.sh asserts of its runs: check_run.py OUT PART [COLD_MODEL]. With a model: rewards before
and after as well."""

import json
import pathlib
import re
import sys

# By what both sides compute in. CANARY: nats, mean; 5e-7 was seen in float32, 6e-3 in bfloat16. KL:
# mean of exp(d) - 1 - d over the tokens of a step, about d^2 / 2, where d is the learner's log-prob
# at the run's temperature minus vLLM's. Every step is on-policy (max_age 0), so d is a numerical
# difference alone: 3e-4 nats give 5e-8 (rounding of the mean itself gives 5e-9), 0.02 nats give
# 2e-4 (5e-5 was seen).
STEPS = {"float32": 20, "bfloat16": 6, "qwen3": 10, "lora": 10, "sampling": 2, "episodes": 20}
CANARY_BOUND = {"float32": 1e-3, "bfloat16": 0.02}
KL_BOUND = {"float32": 5e-8, "bfloat16": 2e-4}
STANDARD_ERRORS = 3

out, part, cold = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
dtype = "bfloat16" if part == "bfloat16" else "float32"
run = out / f"run-{part}"
problems = []


def check(holds, text):
    print(f"{'ok  ' if holds else 'FAIL'} {text}")
    if not holds:
        problems.append(text)


def check_rewards(model):
    correct = {model: 0, str(run / "model"): 0}
    asked = 0
    for line in (out / "evals.jsonl").read_text().splitlines():
        row = json.loads(line)
        correct[row["model"]] += row["correct"]
        asked += row["prompts"]
    asked //= 2
    before, after = (count / asked for count in correct.values())
    error = (2 * max(before, after) * (1 - max(before, after)) / asked)**0.5
    check(
        after - before > STANDARD_ERRORS * error,
        f"reward on held-out prompts at 0.7: {before:.3f} before, {after:.3f} after, {asked}"
        f" completions each (standard error {error:.3f})",
    )


def check_episodes():
    counts = dict(re.findall(r"^buttress_worker_(\w+?)(?:{[^}]*})? (\S+)$",
                             (out / "worker.txt").read_text(), re.MULTILINE))
    again = float(counts["reencoded_tokens_total"])
    turns = [float(counts[f"episode_turns_{part}"]) for part in ("sum", "count")]
    check(turns[1] > 0 and again == 0,
          f"{again:.0f} tokens encoded again in {turns[1]:.0f} episodes of {turns[0]:.0f} turns")
    fewest = min(step["episodes"]["turns_mean"] for step in steps)
    check(fewest > 1.5, f"{fewest:.2f} turns an episode at least, mean of a step")
    unscorable = sum(step["unscorable"] for step in steps)
    check(unscorable == 0, f"{unscorable:.0f} unscorable episodes")


steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
summary = json.loads((run / "summary.json").read_text())
log = (run / "logs/worker-w0.log").read_text()
proofs = re.findall(r"vLLM serves new weights.* policy=(\S+).* canary_difference=(\S+)", log)

wanted = STEPS[part.split("-")[0]]
check(len(steps) == wanted, f"{len(steps)} steps of {wanted}")
check(summary["restarts"] == 0 and summary["engine"] == "vllm",
      f"engine {summary['engine']}, {summary['restarts']} restarts",
     )
check(
    len(proofs) >= len(steps),
    (f"{len(proofs)} versions proven by canaries, from policy {proofs[0][0]} to {proofs[-1][0]}"
     if proofs else "no proofs"),
)
farthest = max((float(difference) for _, difference in proofs), default=float("inf"))
check(farthest <= CANARY_BOUND[dtype],
      f"canaries at most {farthest:.2g} nats from the learner's (bound {CANARY_BOUND[dtype]})",
     )
worst = max(steps, key=lambda step: abs(step["kl"]))
check(
    abs(worst["kl"]) <= KL_BOUND[dtype],
    f"log-probs of every step's tokens: KL {worst['kl']:.2g} at most, step {worst['step']}"
    f" (bound {KL_BOUND[dtype]})",
)
check(all(step["dropped_tokens"] == 0 and not step["skipped"] for step in steps),
      "no token dropped, no step skipped",
     )
for word in (" E ", "weights could not be loaded", "a vLLM server is lost"):
    check(word not in log, f"nothing like {word.strip()!r} in the worker's log")
if part == "episodes":
    check_episodes()
for model in cold:
    check_rewards(model)
print("reward by step:", " ".join(f"{step['raw_reward_mean']:.2f}" for step in steps))
print(f"{summary['wall_seconds']:.0f} s for {len(steps)} steps, {summary['tokens_per_second']:.0f}"
      " tokens/s")
sys.exit(1 if problems else 0)
