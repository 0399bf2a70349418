"""What tests/oracles/with_vllm.sh asserts of its run: check_run.py OUT COLD_MODEL."""
import json
import pathlib
import re
import sys

STEPS = 20
CANARY_BOUND = 1e-3  # nats, mean; the worker's own bound in float32
# Mean of exp(d) - 1 - d over the tokens of a step, about d^2 / 2, where d is the learner's log-prob at temperature 0.7 minus vLLM's.
# Every step is on-policy (max_age 0), so d is a numerical difference alone: 3e-4 nats give 5e-8. Rounding of the mean itself gives 5e-9.
KL_BOUND = 5e-8
STANDARD_ERRORS = 3

out, cold = pathlib.Path(sys.argv[1]), sys.argv[2]
problems = []


def check(holds, text):
    print(f"{'ok  ' if holds else 'FAIL'} {text}")
    if not holds:
        problems.append(text)


steps = [json.loads(line) for line in (out / "run/steps.jsonl").read_text().splitlines()]
summary = json.loads((out / "run/summary.json").read_text())
log = (out / "run/logs/worker-w0.log").read_text()
proofs = re.findall(r"vLLM serves new weights.* policy=(\S+).* canary_difference=(\S+)", log)

check(len(steps) == STEPS, f"{len(steps)} steps of {STEPS}")
check(summary["restarts"] == 0 and summary["engine"] == "vllm", f"engine {summary['engine']}, {summary['restarts']} restarts")
check(len(proofs) >= STEPS, f"{len(proofs)} versions proven by canaries, from policy {proofs[0][0]} to {proofs[-1][0]}" if proofs else "no proofs")
for policy, difference in proofs[:1] + proofs[-1:]:
    check(float(difference) <= CANARY_BOUND, f"policy {policy}: canaries {float(difference):.2g} nats from the learner's (bound {CANARY_BOUND})")
worst = max(steps, key=lambda step: abs(step["kl"]))
check(abs(worst["kl"]) <= KL_BOUND, f"log-probs at 0.7 of every step's tokens: KL {worst['kl']:.2g} at most, step {worst['step']} (bound {KL_BOUND})")
check(all(step["dropped_tokens"] == 0 and not step["skipped"] for step in steps), "no token dropped, no step skipped")
for word in (" E ", "weights could not be loaded", "a vLLM server is lost"):
    check(word not in log, f"nothing like {word.strip()!r} in the worker's log")

correct = {cold: 0, str(out / "run/model"): 0}
asked = 0
for line in (out / "evals.jsonl").read_text().splitlines():
    row = json.loads(line)
    correct[row["model"]] += row["correct"]
    asked += row["prompts"]
asked //= 2
before, after = (count / asked for count in correct.values())
error = (2 * max(before, after) * (1 - max(before, after)) / asked) ** 0.5
check(after - before > STANDARD_ERRORS * error,
      f"reward on held-out prompts at 0.7: {before:.3f} before, {after:.3f} after, {asked} completions each (standard error {error:.3f})")
rewards = [step["reward_mean"] for step in steps]
print("reward by step:", " ".join(f"{reward:.2f}" for reward in rewards))
print(f"{summary['wall_seconds']:.0f} s for {STEPS} steps, {summary['tokens_per_second']:.0f} tokens/s")
sys.exit(1 if problems else 0)
