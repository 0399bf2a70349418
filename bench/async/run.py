"""Measures what a run gains from training on older tokens. A worker and a learner, one thread each,
sample and train the tiny model for the same number of steps at run.batch.max_age 0, 1, 2 and 4.
Completions end at one of 16 stop tokens, so that their lengths have a long tail: most are done
while a few hold up the step.

For each age: steps per hour, the share of the time in which the learner is busy, the share of fresh
tokens (`freshness`: 1 where all were sampled from the weights that they train), and `speed.fresh`,
fresh tokens per second. The peer is the run at age 0, which is synchronous: it samples a step, then
trains it."""

import json
import pathlib
import statistics
import subprocess
import tempfile

import models
from report import Report, parser, progress

AGES = (0, 1, 2, 4)


def run(model, age, steps):
    """Returns the rows of steps.jsonl without those of the first tenth, while queues fill."""
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(
            json.dumps({"id": str(i), "prompt": text[:200], "answer": "none"}) + "\n"
            for i, text in zip(range(512), models.paragraphs())))
        settings = {
            "run": {
                "steps": steps, "checkpoint_interval": 1000000,
                "data": {"prompts": str(prompts), "over_long": "drop"},
                "model": {"path": str(model)},
                "sampling": {"group_size": 8, "max_tokens": 512,
                             "stop_token_ids": list(range(300, 316))},
                "batch": {"prompts": 8, "max_age": age}, "reward": {"verifier": "exact"},
                "algorithm": {"advantage": "avspo", "avspo": {"mode": "opposite"}},
                "optim": {"lr": 1e-6},
            }, "local": {"out": f"{folder}/out"},
        }
        config = pathlib.Path(folder) / "run.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        done = subprocess.run([models.BIN / "buttress", "launch", config],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout[-3000:])
        rows = [json.loads(line) for line in open(f"{folder}/out/steps.jsonl")]
    return rows[max(1, steps // 10):]


def mean(rows, *path):
    def value(row):
        for name in path:
            row = row[name]
        return row

    return statistics.mean(value(row) for row in rows)


def main():
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=40)
    options = options.parse_args()
    model = models.trained_folder("tiny")
    report = Report("async", options.json)
    synchronous = None
    for age in AGES:
        rows = run(model, age, options.steps)
        seconds, busy = mean(rows, "seconds", "step"), mean(rows, "seconds", "busy")
        synchronous = synchronous or seconds
        case = f"max_age {age}"
        report.add(case, "steps/h", 3600 / seconds, 3600 / synchronous, "max_age 0",
                   more_is_better=True)
        report.measure(case, "% busy", 100 * busy / seconds)
        report.measure(case, "freshness", mean(rows, "freshness"))
        report.measure(case, "fresh tok/s", mean(rows, "speed", "fresh"))
        progress(f"{case}: {seconds:.2f} s a step, of which the learner waits for "
                 f"{mean(rows, 'seconds', 'wait'):.2f} s, "
                 f"{mean(rows, 'accepted_tokens'):.0f} tokens")


main()
