"""Compares publishing and fetching 1 GB of weights with `cp` and `sha256sum`, in seconds and GB/s.
`publish` writes and hashes the folder of a version, `file` verifies it in place by reading and
hashing every byte, and `grpc` sends it on this machine, checks each chunk, writes and hashes it.
Weights of more than 1 GiB (`--gigabytes`) are several files. The peer copies the same files with
`cp`, reads them with `sha256sum`, or does both in turn. Both sides use the page cache without
fsync. They run in turn, and the median of the rounds counts. `step` is the bytes that a worker gets
for a step of a run in bfloat16 at a learning rate of 1e-6, next to those of the whole weights."""

import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import models
from report import Report, parser, progress

PEERS = {"publish": ("cp", "sha256sum"), "file": ("sha256sum",), "grpc": ("cp", "sha256sum")}


def seconds_of(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def one_round(gigabytes):
    with tempfile.TemporaryDirectory() as folder:
        command = [models.BIN / "bench_weights", folder, "--gigabytes", str(gigabytes)]
        ours = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        copy = pathlib.Path(folder) / "copy"
        theirs = {
            "cp": seconds_of(["cp", "-r", "--reflink=never", ours["folder"], copy]),
            "sha256sum": seconds_of(["sha256sum", *copy.glob("*.safetensors")]),
        }
    return ours, theirs


def bytes_of_steps():
    """Returns the bytes that a worker received for each step but the first version, which is whole,
    and the bytes of the weights."""
    model = models.trained_folder("tiny")
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(
            json.dumps({"id": str(i), "prompt": text, "answer": "none"}) + "\n"
            for i, text in zip(range(64), models.paragraphs())))
        settings = [
            f"run.data.prompts={prompts}", f"run.model.path={model}", "run.model.dtype=bfloat16",
            "run.steps=12", "run.batch.prompts=8", "run.sampling.group_size=8",
            "run.sampling.max_tokens=64", "run.data.over_long=drop", "run.reward.verifier=exact",
            "run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=opposite",
            "run.optim.lr=1e-6", f"local.out={folder}/out", "local.worker.weights=grpc",
        ]
        config = pathlib.Path(folder) / "run.yaml"
        config.write_text("run: {}\nlocal: {}\n")
        command = [models.BIN / "buttress", "launch", config]
        done = subprocess.run([*command, *(f"--set={setting}" for setting in settings)],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True)
        logs = "".join(path.read_text() for path in pathlib.Path(folder).glob("out/logs/*"))
        received = re.findall(r"weights received policy=\S+ bytes=(\d+) of=(\d+)", logs)
        if done.returncode != 0 or len(received) < 2:
            raise SystemExit(done.stdout[-3000:])
    return statistics.median(int(part) for part, _ in received[1:]), int(received[0][1])


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--gigabytes", type=int, default=1)
    options = options.parse_args()
    report = Report("weights", options.json)
    rounds = []
    for n in range(options.rounds):
        rounds.append(one_round(options.gigabytes))
        progress(f"round {n + 1}: {rounds[-1]}")
    gigabytes = rounds[0][0]["bytes"] / 1e9
    for case, programs in PEERS.items():
        mine = statistics.median(ours[case] for ours, _ in rounds)
        peer = statistics.median(
            sum(theirs[program] for program in programs) for _, theirs in rounds)
        name = " + ".join(programs)
        report.add(case, "s", mine, peer, name, more_is_better=False)
        report.add(case, "GB/s", gigabytes / mine, gigabytes / peer, name, more_is_better=True)
    mine, whole = bytes_of_steps()
    report.add("step", "MB", mine / 1e6, whole / 1e6, "whole weights", more_is_better=False)


main()
