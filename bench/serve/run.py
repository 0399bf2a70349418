"""Compares `buttress serve` with its engine in the process of the caller: tokens per second of
completions that are asked for at once, as whole answers and as streams, with a prompt of 64 tokens
and all cores. For streams it also measures the time to the first token and the longest time between
two pieces. Both run in turn, and the median of the rounds counts; the time of the cores is of all
rounds."""

import http.client
import json
import os
import random
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import models
from report import Report, parser, progress

LOADS = [(1, 128), (8, 128), (64, 128)]
PROGRAMS = ("buttress", "rollout_worker", "bench_engine")


def cpu_seconds(process):
    """The time of the cores that a process has used."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Engine:
    """bench_engine: the engine alone."""

    def __init__(self, folder, threads):
        self.process = subprocess.Popen(
            [models.BIN / "bench_engine", folder, "--dtype", "float32", "--threads", str(threads),
             "--prompt-tokens", str(models.PROMPT_TOKENS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, completions, tokens):
        self.process.stdin.write(f"{completions} {tokens}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return float(line) if line else exit("serve: bench_engine has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Server:
    def __init__(self, folder, threads):
        self.process = subprocess.Popen(
            [models.BIN / "buttress", "serve", "--model", folder, "--served-model-name", "policy",
             "--listen", "127.0.0.1:0", "--threads", str(threads), "--max-running", "256"],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def complete(self, tokens, stream):
        """Returns the times at which the lines of the answer came, from the request on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        prompt = [random.randrange(3, 1000) for _ in range(models.PROMPT_TOKENS)]
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": stream}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body))
        reply = connection.getresponse()
        times = [time.perf_counter() - begin for line in reply if line.strip()]
        connection.close()
        return times if reply.status == 200 else exit(f"serve: HTTP {reply.status}")

    def load(self, completions, tokens, stream):
        """Returns the seconds of the load, and the times of each completion."""
        with ThreadPoolExecutor(completions) as pool:
            begin = time.perf_counter()
            times = list(pool.map(lambda _: self.complete(tokens, stream), range(completions)))
            return time.perf_counter() - begin, times

    def close(self):
        self.process.terminate()
        self.process.wait()


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    subprocess.run([models.ROOT / "deploy/build.sh", "release", *PROGRAMS], check=True,
                   stdout=subprocess.DEVNULL)
    report = Report("serve", options.json)
    folder, threads = models.trained_folder("tiny"), os.cpu_count()
    engine, server = Engine(folder, threads), Server(folder, threads)
    for completions, tokens in LOADS:
        progress(f"{completions} at once")
        engine.seconds(completions, 8)
        server.load(completions, 8, False)
        alone, whole, streams, first, gaps = [], [], [], [], []
        cpu = {"alone": 0, "whole": 0}
        for _ in range(options.rounds):
            before = cpu_seconds(engine.process), cpu_seconds(server.process)
            alone.append(engine.seconds(completions, tokens))
            whole.append(server.load(completions, tokens, False)[0])
            cpu["alone"] += cpu_seconds(engine.process) - before[0]
            cpu["whole"] += cpu_seconds(server.process) - before[1]
            seconds, times = server.load(completions, tokens, True)
            streams.append(seconds)
            first += [each[0] for each in times]
            gaps += [max(b - a for a, b in zip(each, each[1:])) for each in times]
        rate = lambda seconds: completions * tokens / statistics.median(seconds)
        case = f"{completions} x {tokens}"
        report.add(case, "tok/s", rate(whole), rate(alone), "in process", more_is_better=True)
        report.add(case, "CPU s", cpu["whole"], cpu["alone"], "in process", more_is_better=False)
        report.add(f"{case}, streamed", "tok/s", rate(streams), rate(alone), "in process",
                   more_is_better=True)
        report.measure(f"{case}, first token", "ms, median", 1000 * statistics.median(first))
        report.measure(f"{case}, longest gap", "ms, median", 1000 * statistics.median(gaps))
    engine.close()
    server.close()


main()
