"""Starts a run of many tiny steps, samples what its processes and its folder use, and judges by a
line through the samples whether anything grows that should not. Prints a table with small curves.
"""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from harm import Failed, require
from judge import judge, table
from usage import Usage

PATIENCE_S = 600
RUN = {"name": "long", "checkpoint_interval": 1000, "checkpoints": {"keep_last": 2},
       "sampling": {"group_size": 2, "max_tokens": 1}, "batch": {"prompts": 1, "max_age": 1},
       "reward": {"verifier": "countdown", "use_all": True},
       "algorithm": {"advantage": "avspo", "avspo": {"mode": "opposite"}}, "optim": {"lr": 1e-6}}
LOCAL = {"coordinator": {"payload_segment_bytes": 1 << 20, "archive_steps": 1000},
         "learner": {"stop_when": {"uninformative_steps": 0}},
         "launch": {"workers": 1, "learner_ranks": 1}}


def buttress(options, *arguments):
    done = subprocess.run([options.bin / "buttress", *map(str, arguments)], capture_output=True,
                          text=True, timeout=PATIENCE_S)
    require(done.returncode == 0, f"{arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def make_config(options):
    """The smallest model and task: what a step costs beside its arithmetic is what is measured."""
    task = options.out / "task"
    buttress(options, "task", "countdown", "--out", task, "--numbers", 2, "--operators", "+-",
             "--use-all", "--format", "compact", "--train", 200, "--held-out", 10, "--sft", 200,
             "--seed", 1)
    buttress(options, "new-model", "--out", task / "new", "--characters", "0123456789+-:>",
             "--layers", 1, "--hidden", 16, "--heads", 2, "--intermediate", 16)
    buttress(options, "sft", "--model", task / "new", "--data", task / "sft.jsonl", "--out",
             task / "model", "--steps", 2, "--batch", 8, "--lr", "1e-3", "--seed", 1)
    config = {"run": RUN | {"steps": options.steps, "model": {"path": str(task / "model")},
                            "data": {"prompts": str(task / "train.jsonl"),
                                     "held_out": str(task / "held_out.jsonl")}},
              "local": LOCAL | {"out": str(options.out / "run")}}
    path = options.out / "run.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return path


def run_and_sample(options, config):
    """Returns the samples; the run has ended then, by itself or after the time that it has."""
    samples, begin = [], time.monotonic()
    with open(options.out / "launch.log", "w", encoding="utf-8") as log, \
            open(options.out / "samples.jsonl", "w", encoding="utf-8") as file:
        launch = subprocess.Popen([options.bin / "buttress", "launch", config, "--no-eval"],
                                  stdout=log, stderr=log)
        usage = Usage(launch.pid, options.out / "run")
        try:
            while launch.poll() is None:
                time.sleep(options.interval)
                sample = usage.sample(time.monotonic() - begin)
                if sample is None:
                    continue  # it starts or ends
                samples.append(sample)
                print(json.dumps(sample), file=file, flush=True)
                if options.seconds and sample["seconds"] > options.seconds:
                    launch.send_signal(signal.SIGTERM)
                    launch.wait(PATIENCE_S)
        finally:
            if launch.poll() is None:
                launch.send_signal(signal.SIGTERM)
                launch.wait(PATIENCE_S)
    told = (options.out / "launch.log").read_text()[-3000:]
    require(launch.returncode == 0 or options.seconds,
            f"launch ends with {launch.returncode}: {told}")
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--out", default="runs/with-long_run", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1000000)
    parser.add_argument("--seconds", type=float, default=0, help="0: until the last step")
    parser.add_argument("--interval", type=float, default=5, help="seconds between two samples")
    parser.add_argument("--wall-percent", type=float, default=50,
                        help="bound of the growth of the time of a step; 0: none, and none of "
                             "processor time, where others use the machine")
    options = parser.parse_args()
    options.out = options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    try:
        samples = run_and_sample(options, make_config(options))
        begin = time.monotonic()
        buttress(options, "ledger", "audit", options.out / "run")
        seconds = time.monotonic() - begin
        rows = judge(samples, options.wall_percent)
    except Failed as failure:
        print(f"long_run: {failure}", file=sys.stderr)
        return 1
    last = samples[-1]
    print(f"{last['step']} steps in {last['seconds']:.0f} s; the audit took "
          f"{seconds:.1f} s and is clean")
    print(table(rows))
    grown = [row["name"] for row in rows if not row["holds"]]
    if grown:
        print(f"long_run: these grow beyond their bound: {', '.join(grown)}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
