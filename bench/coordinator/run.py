"""Durable accepts per second and their 99th percentile with 1, 64 and 1,024 simulated workers,
beside Redis streams with AOF fsync always.

A worker submits one group at a time over a gRPC stream and connection of its own, and counts it
when it is acknowledged: hashed, parsed, checked, under its lease, once, counted, synced to disk
and in the ledger. Its leases and completions are made before the clock starts. The clients of all
workers are one process of the gRPC library, which shares the machine with the coordinator.
redis-benchmark sends as many bytes, twice: `redis` is the same accept as a script (lease, once,
entry, counts; nobody looks at the content), `redis xadd` only appends. A group has 8 completions
of 128 tokens, the load of the `tiny` case of bench/step. All run in turn; the median of the rounds
counts."""

import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time

import models
from redis_server import Redis
from report import Report, parser, progress

GROUPS = {1: 2000, 64: 32000, 1024: 32768}
COMPLETIONS = 8
TOKENS = 128


def write_run(folder, groups):
    model = models.tokenizer_folder("tiny")
    texts = models.prompts(model, 256)
    with open(f"{folder}/prompts.jsonl", "w") as file:
        for i in range(groups):
            row = {"id": f"prompt-{i}", "prompt": texts[i % len(texts)], "answer": "42"}
            file.write(json.dumps(row) + "\n")
    settings = {
        "run": {
            "steps": 1, "lease_ms": 3600000, "data": {"prompts": f"{folder}/prompts.jsonl"},
            "model": {"path": str(model)},
            "sampling": {"group_size": COMPLETIONS,
                         "max_tokens": TOKENS}, "batch": {"prompts": groups, "max_age": 0},
        }, "local": {"out": f"{folder}/out"},
    }
    with open(f"{folder}/run.yaml", "w") as file:
        json.dump(settings, file)  # JSON is YAML


def ours(workers, groups):
    with tempfile.TemporaryDirectory() as folder:
        write_run(folder, groups)
        with open(f"{folder}/log", "w") as log:
            command = [models.BIN / "coordinator", "--config", f"{folder}/run.yaml"]
            coordinator = subprocess.Popen(command, stderr=log)
        try:
            while not os.path.exists(f"{folder}/out/coordinator.address"):
                if coordinator.poll() is not None:
                    raise SystemExit(open(f"{folder}/log").read())
                time.sleep(0.05)
            command = [
                models.BIN / "bench_coordinator", "--config", f"{folder}/run.yaml", "--workers",
                str(workers), "--tokens",
                str(TOKENS),
            ]
            result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        finally:
            coordinator.terminate()
            coordinator.wait()
    return result["groups"] / result["seconds"], result["p99_ms"], result["payload_bytes"]


def peer(workers, groups, payload_bytes):
    payload = bytes(random.randrange(1, 256) for _ in range(payload_bytes))
    redis = Redis()
    try:
        return *redis.accept(workers, groups, payload), *redis.append(workers, groups, payload)
    finally:
        redis.close()


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--workers", type=int, nargs="*", default=list(GROUPS))
    options = options.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a connection for each worker
    report = Report("coordinator", options.json)
    for workers in options.workers:
        runs = []
        for n in range(options.rounds):
            rate, p99, payload_bytes = ours(workers, GROUPS[workers])
            peers = peer(workers, GROUPS[workers], payload_bytes)
            progress(f"{workers} workers, round {n + 1}: {rate:.0f}/s, p99 {p99:.1f} ms; "
                     f"Redis {peers[0]:.0f}/s, {peers[1]:.1f} ms; "
                     f"XADD alone {peers[2]:.0f}/s, {peers[3]:.1f} ms; "
                     f"{payload_bytes} bytes a group")
            runs.append((rate, p99, *peers))
        medians = [statistics.median(column) for column in zip(*runs)]
        rate, p99, accepts, accept_p99, appends, append_p99 = medians
        case = f"{workers} workers"
        report.add(case, "accepts/s", rate, accepts, "redis", more_is_better=True)
        report.add(case, "p99 ms", p99, accept_p99, "redis", more_is_better=False)
        report.add(case, "accepts/s", rate, appends, "redis xadd", more_is_better=True)
        report.add(case, "p99 ms", p99, append_p99, "redis xadd", more_is_better=False)


main()
