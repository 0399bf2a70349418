"""What run.sh asserts of the run whose servers were killed: check_restarts.py OUT."""

import json
import pathlib
import re
import sys

STEPS = 60
RESTARTS = 2  # of each server
# As in check_run.py. Tokens of the weights that a restarted server starts with, or of any version
# but the step's own, would differ by far more.
KL_BOUND = 5e-8

out = pathlib.Path(sys.argv[1])
run = out / "run-restarts"
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
check([step["step"] for step in steps] == list(range(1, STEPS + 1)),
      f"{len(steps)} steps of {STEPS}, each once")
check(summary["restarts"] == 0, f"{summary['restarts']} restarts of our own processes")
check(of_servers("restarts_total") == [RESTARTS] * 2,
      f"restarts of the servers: {of_servers('restarts_total')}")
check(all(losses >= RESTARTS for losses in of_servers("losses_total")),
      f"losses of the servers: {of_servers('losses_total')}")
worst = max(steps, key=lambda step: abs(step["kl"]))
check(
    abs(worst["kl"]) <= KL_BOUND,
    f"log-probs of every step's tokens: KL {worst['kl']:.2g} at most, step {worst['step']}"
    f" (bound {KL_BOUND})",
)
check(all(step["dropped_tokens"] == 0 and not step["skipped"] for step in steps),
      "no token dropped, no step skipped")
print(f"completions of the servers: {of_servers('completions_total')}, tokens:"
      f" {of_servers('tokens_total')}")
print(f"{summary['wall_seconds']:.0f} s for {len(steps)} steps, {summary['tokens_per_second']:.0f}"
      " tokens/s")
sys.exit(1 if problems else 0)
