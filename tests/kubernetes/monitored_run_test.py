"""Every query of the dashboards returns a number from a Prometheus server that scrapes a run. Needs
the programs `prometheus` and `mpirun`.

    monitored_run_test.py BUTTRESS      the program, with its siblings in the same folder
"""

import glob
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import queries

SKIPPED = 77
PATIENCE_SECONDS = 240
ONLY_VLLM = {"nodes: Servers that sample"}
RUN = """
run:
  name: monitored
  steps: 100000
  checkpoint_interval: 5
  lease_ms: 3000
  data: {prompts: task/train.jsonl, held_out: task/held_out.jsonl}
  eval: {every: 5}
  model: {path: model}
  sampling: {group_size: 4, max_tokens: 8}
  batch: {prompts: 8, max_age: 1}
  reward: {verifier: countdown, use_all: true, second: {verifier: format, share: 1}}
  algorithm: {advantage: avspo, avspo: {mode: opposite}}
local:
  out: out
  launch: {workers: 2, learner_ranks: 2}
  learner:
    stop_when: {uninformative_steps: 0}  # the model of the test hardly learns
    start_kl: {every: 5}
"""
PROMETHEUS = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: buttress
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
"""


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"waited {PATIENCE_SECONDS} s for {what}")
        time.sleep(1)
    return found


def make_model(buttress):
    for command in (
        "task countdown --out task --numbers 4 --operators +- --use-all --format compact "
        "--train 2000 --held-out 10 --sft 4000 --seed 1",
        "new-model --out new --characters 0123456789+-:> --layers 1 --hidden 32 --heads 2 "
        "--intermediate 64",
        "sft --model new --data task/sft.jsonl --out model --steps 20 --batch 64 --lr 3e-3 "
        "--warmup 5 --seed 1"):
        subprocess.run([buttress, *command.split()], check=True, stdout=subprocess.DEVNULL)


def targets():
    """The addresses that the processes of the run wrote, once all five have."""
    files = [path for pattern in ("coordinator", "workers/*", "learner/*")
             for path in glob.glob(f"out/{pattern}.metrics")]
    return [pathlib.Path(path).read_text().strip() for path in files] if len(files) == 5 else []


def is_ready(server):
    """A server listens, and answers 503, before it has opened its storage."""
    try:
        with urllib.request.urlopen(f"http://{server}/-/ready", timeout=30) as reply:
            return reply.status == 200
    except urllib.error.URLError:
        return False


def answer(server, query):
    """The finite numbers of an instant query."""
    url = f"http://{server}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=30) as reply:
        result = json.load(reply)["data"]["result"]
    return [value for series in result if math.isfinite(value := float(series["value"][1]))]


def start(log, *command):
    with open(log, "w", encoding="utf-8") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def check_queries(server):
    asked = [pair for pair in queries.dashboard_queries() if pair[0] not in ONLY_VLLM]
    open_ = asked
    deadline = time.monotonic() + PATIENCE_SECONDS
    while open_ and time.monotonic() < deadline:
        open_ = [(panel, query) for panel, query in open_ if not answer(server, query)]
        time.sleep(1)
    if open_:
        sys.exit("\n".join(f"no data: {panel}: {query}" for panel, query in open_))
    print(f"{len(asked)} queries return numbers")


def main(buttress):
    for program in ("prometheus", "mpirun"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(SKIPPED)
    make_model(buttress)
    for path, text in {"run.yaml": RUN, "prometheus.yaml": PROMETHEUS,
                       "rules.yaml": queries.rule_file()}.items():
        pathlib.Path(path).write_text(text)
    started = [start("run.log", buttress, "launch", "run.yaml", "--no-eval")]
    try:
        pathlib.Path("targets.json").write_text(json.dumps(
            [{"targets": wait_for("the processes of the run", targets), "labels": {"run": "r"}}]))
        started.append(start("prometheus.log", "prometheus", "--config.file=prometheus.yaml",
                             "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"))
        log = pathlib.Path("prometheus.log")
        listening = re.compile(r'msg="Listening on" address=(\S+)')
        server = wait_for("Prometheus", lambda: listening.search(log.read_text()))[1]
        wait_for("the storage of Prometheus", lambda: is_ready(server))
        check_queries(server)
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=PATIENCE_SECONDS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(sys.argv[1]).resolve()
        os.chdir(folder)
        main(program)
