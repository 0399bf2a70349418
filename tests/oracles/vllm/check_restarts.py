"""What run.sh asserts of the runs whose servers were killed: check_restarts.py OUT PART."""

import json
import pathlib
import re
import sys

STEPS = {"restarts": 60, "launch": 30}
RESTARTS = {"restarts": [2, 2], "launch": [3]}  # of each server
OWN_RESTARTS = {"restarts": 0, "launch": 3}  # of the processes that launch started
# As in check_run.py. Tokens of the weights that a restarted server starts with, or of any version
# but the step's own, would differ by far more.
KL_BOUND = 5e-8

out, part = pathlib.Path(sys.argv[1]), sys.argv[2]
run = out / f"run-{part}"
problems = []


def check(holds, text):
    print(f"{'ok  ' if holds else 'FAIL'} {text}")
    if not holds:
        problems.append(text)


def of_servers(name):
    values = re.findall(rf'^buttress_worker_server_{name}{{.*}} (\d+)',
                        (out / "servers.txt").read_text(), re.MULTILINE)
    return [int(value) for value in values]


steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
summary = json.loads((run / "summary.json").read_text())
check([step["step"] for step in steps] == list(range(1, STEPS[part] + 1)),
      f"{len(steps)} steps of {STEPS[part]}, each once")
check(summary["restarts"] == OWN_RESTARTS[part],
      f"{summary['restarts']} restarts of processes that launch started")
check(of_servers("restarts_total") == RESTARTS[part],
      f"restarts of the servers: {of_servers('restarts_total')}")
check(all(losses >= restarts
          for losses, restarts in zip(of_servers("losses_total"), RESTARTS[part])),
      f"losses of the servers: {of_servers('losses_total')}")
worst = max(steps, key=lambda step: abs(step["kl"]))
check(
    abs(worst["kl"]) <= KL_BOUND,
    f"log-probs of every step's tokens: KL {worst['kl']:.2g} at most, step {worst['step']}"
    f" (bound {KL_BOUND})",
)
check(all(step["dropped_tokens"] == 0 and not step["skipped"] for step in steps),
      "no token dropped, no step skipped")
# Every group is trained (max_age 0), so a token that was read and lost would be missing here.
if part == "launch":
    trained = sum(step["generated_tokens"] for step in steps)
    check(sum(of_servers("tokens_total")) == trained,
          f"tokens read from the server: {sum(of_servers('tokens_total'))}, trained: {trained:.0f}")
print(f"completions of the servers: {of_servers('completions_total')}, tokens:"
      f" {of_servers('tokens_total')}")
print(f"{summary['wall_seconds']:.0f} s for {len(steps)} steps, {summary['tokens_per_second']:.0f}"
      " tokens/s")
sys.exit(1 if problems else 0)
