"""The coordinator: accepted groups per second next to Redis, the same in a live run, and restarts.

`submit` has 1, 64 and 1,024 simulated workers that submit one group at a time over a gRPC
connection of their own, next to Redis streams with AOF fsync always. A group counts when it is
acknowledged: hashed, parsed, checked, under its lease, once, counted, synced to disk and in the
ledger. Its leases and completions are made, and the connections are open, before the clock starts.
The clients of all workers are one process of the gRPC library, which shares the machine with the
coordinator; its channels have the options of those of a worker, whose own process would bear the
client's share of the work. redis-benchmark sends as many bytes, twice: `redis` is the same accept
as a script (lease, once, entry, counts; nobody looks at the content), `redis xadd` only appends. A
group has 8 completions of 128 tokens, the load of the `tiny` case of bench/step. All run in turn;
the median of the rounds counts.

`live` is the same submission in a running run: every worker keeps an Exchange open that renews its
leases, over a second connection as in a worker; a learner takes, commits, announces and settles
plans, and the leases of lost workers expire. Another caller measures, while groups are submitted,
how long an Exchange takes that need not wait.

`restart` starts a coordinator on a run that has settled many groups of two completions, over a
dataset of as many rows: seconds from exec to the first lease, the processor time of them, and the
resident memory then. With `--selections greso` each prompt has a record of run.data.selection, by
which it is drawn or passed over. It also measures the bytes of the database and of the archives of
that run (`--archive-steps`, of local.coordinator; 0: none), and `buttress ledger audit`."""

import itertools
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import tempfile
import time

import models
from redis_server import Redis
from report import Report, parser, progress

GROUPS = {1: 2000, 16: 8000, 64: 32000, 256: 32768, 1024: 32768}
PAST_GROUPS = [1000, 10000, 100000]
PLANS = 32  # that the groups of `live` make
PLAN_MOST = 16384  # the bound of run.batch.prompts
COMPLETIONS = 8
TOKENS = 128


def write_run(folder, rows, selection="none", archive_steps=1000, **settings):
    """`settings` go into the `run` half."""
    model = models.tokenizer_folder("tiny")
    texts = models.prompts(model, 256)
    with open(f"{folder}/prompts.jsonl", "w") as file:
        for i in range(rows):
            row = {"id": f"prompt-{i}", "prompt": texts[i % len(texts)], "answer": "42"}
            file.write(json.dumps(row) + "\n")
    config = {
        "run": {
            "data": {"prompts": f"{folder}/prompts.jsonl", "selection": {"mode": selection}},
            "model": {"path": str(model)},
            "sampling": {"group_size": COMPLETIONS, "max_tokens": TOKENS}, **settings,
        }, "local": {"out": f"{folder}/out", "coordinator": {"archive_steps": archive_steps}},
    }
    with open(f"{folder}/run.yaml", "w") as file:
        json.dump(config, file)  # JSON is YAML


class Coordinator:
    """A coordinator of the run in `folder` that serves."""

    def __init__(self, folder):
        self.address = f"{folder}/out/coordinator.address"
        if os.path.exists(self.address):
            os.remove(self.address)
        self.begin = time.monotonic()
        with open(f"{folder}/log", "w") as log:
            command = [models.BIN / "coordinator", "--config", f"{folder}/run.yaml"]
            self.process = subprocess.Popen(command, stderr=log)
        while not os.path.exists(self.address):
            if self.process.poll() is not None:
                raise SystemExit(open(f"{folder}/log").read())
            time.sleep(0.01)

    def memory(self):
        """Resident bytes: now, and at the highest."""
        lines = open(f"/proc/{self.process.pid}/status").read().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return [1024 * int(fields[name].split()[0]) for name in ("VmRSS", "VmHWM")]

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def clients(folder, *arguments):
    command = [models.BIN / "bench_coordinator", "--config", f"{folder}/run.yaml", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def ours(workers, live):
    groups = GROUPS[workers]
    plan = groups // PLANS
    # Everything is leased at the start; in a `live` run up to a plan more to workers that are lost.
    batch = {"prompts": plan, "max_age": PLANS, "window": 2 * groups} if live else {
        "prompts": min(groups, PLAN_MOST), "max_age": 1, "window": 2 * groups}
    with tempfile.TemporaryDirectory() as folder:
        write_run(folder, groups + plan, steps=PLANS + 1 if live else 1,
                  lease_ms=20000 if live else 3600000, batch=batch)
        with Coordinator(folder):
            arguments = ["--workers", str(workers), "--groups", str(groups), "--tokens",
                         str(TOKENS)] + (["--live"] if live else [])
            result = json.loads(clients(folder, *arguments))
    return result["groups"] / result["seconds"], result


def bytes_in(folder, pattern):
    return sum(path.stat().st_size for path in pathlib.Path(folder).glob(pattern))


def restart(groups, selection, archive_steps):
    """Seconds and processor seconds to the first lease, resident bytes then and at the highest,
    bytes of the database and of archives, and the seconds of an audit."""
    with tempfile.TemporaryDirectory() as folder:
        prompts = 32
        write_run(folder, groups, selection, archive_steps, steps=groups // prompts + 10,
                  batch={"prompts": prompts, "max_age": 0})
        clients(folder, "--past-groups", str(groups))
        sizes = bytes_in(folder, "out/ledger.db"), bytes_in(folder, "out/archive/*")
        begin = time.monotonic()
        # It has no checkpoint, which the audit says (4).
        subprocess.run([models.BIN / "buttress", "ledger", "audit", f"{folder}/out"],
                       stdout=subprocess.DEVNULL)
        audit = time.monotonic() - begin
        with Coordinator(folder) as coordinator:
            clients(folder, "--first-lease")
            seconds = time.monotonic() - coordinator.begin
            return seconds, coordinator.cpu_seconds(), *coordinator.memory(), *sizes, audit


def peer(workers, payload_bytes):
    payload = bytes(random.randrange(1, 256) for _ in range(payload_bytes))
    redis = Redis()
    try:
        groups = GROUPS[workers]
        return *redis.accept(workers, groups, payload), *redis.append(workers, groups, payload)
    finally:
        redis.close()


def submit_cases(options, report):
    for workers in options.workers:
        runs = []
        for n in range(options.rounds):
            rate, result = ours(workers, live=False)
            p99 = result["p99_ms"]
            peers = peer(workers, result["payload_bytes"])
            progress(f"{workers} workers, round {n + 1}: {rate:.0f}/s, p99 {p99:.1f} ms; "
                     f"Redis {peers[0]:.0f}/s, {peers[1]:.1f} ms; "
                     f"XADD alone {peers[2]:.0f}/s, {peers[3]:.1f} ms; "
                     f"{result['payload_bytes']} bytes a group")
            runs.append((rate, p99, *peers))
        medians = [statistics.median(column) for column in zip(*runs)]
        rate, p99, accepts, accept_p99, appends, append_p99 = medians
        case = f"{workers} workers"
        report.add(case, "accepts/s", rate, accepts, "redis", more_is_better=True)
        report.add(case, "p99 ms", p99, accept_p99, "redis", more_is_better=False)
        report.add(case, "accepts/s", rate, appends, "redis xadd", more_is_better=True)
        report.add(case, "p99 ms", p99, append_p99, "redis xadd", more_is_better=False)


def live_cases(options, report):
    for workers in options.workers:
        rate, result = ours(workers, live=True)
        case = f"{workers} workers, live"
        progress(f"{case}: {result['steps']} steps")
        report.measure(case, "accepts/s", rate)
        report.measure(case, "p99 ms", result["p99_ms"])
        report.measure(case, "p50 ms exchange", result["exchange_p50_ms"])
        report.measure(case, "p99 ms exchange", result["exchange_p99_ms"])


def restart_cases(options, report):
    for groups, selection, steps in itertools.product(options.past_groups, options.selections,
                                                      options.archive_steps):
        seconds, cpu, resident, highest, database, archives, audit = restart(
            groups, selection, steps)
        case = f"{groups} past groups" + ("" if selection == "none" else f", {selection}") + (
            "" if steps == 1000 else f", archive_steps {steps}")
        report.measure(case, "s to lease", seconds)
        report.measure(case, "cpu s to lease", cpu)
        report.measure(case, "MiB", resident / 2**20)
        report.measure(case, "MiB peak", highest / 2**20)
        report.measure(case, "MiB of the database", database / 2**20)
        report.measure(case, "MiB of archives", archives / 2**20)
        report.measure(case, "s to audit", audit)


CASES = {"submit": submit_cases, "live": live_cases, "restart": restart_cases}


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=1, help="of `submit`")
    options.add_argument("--workers", type=int, nargs="*", default=list(GROUPS))
    options.add_argument("--past-groups", type=int, nargs="*", default=PAST_GROUPS,
                         help="of `restart`; 1000000 takes some minutes to write")
    options.add_argument("--selections", nargs="*", default=["none"],
                         help="of `restart`: none, greso, speed, mopps")
    options.add_argument("--archive-steps", type=int, nargs="*", default=[1000],
                         help="of `restart`: 0 keeps all groups in the database")
    options.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    options = options.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a connection for each worker
    report = Report("coordinator", options.json)
    for name in options.cases:
        CASES[name](options, report)


main()
