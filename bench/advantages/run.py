"""Nanoseconds per group of every estimator: bench/run.sh advantages [--json] [--quick].

Times Buttress (lib/rl, one thread) next to NumPy and PyTorch (one thread) on the same rewards: the
best of the calls of half a second. The results are compared first. Each size has two cases:
  batch    the work for a step: checked rewards, collapse classes and counts, checked advantages
           (ComputeAdvantages)
  formula  the advantages alone
More than half of the groups are constant, as in training.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import types

import numpy
import torch

import formulas

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ROOT / "build/release/bin/bench_advantages"
NAMES = [
    "grpo", "dr_grpo", "rloo", "opo", "reinforce_pp", "reinforce_pp_baseline", "gpg", "pass_k",
    "gdpo", "ngrpo", "rl_zvp", "w_reinforce", "reinforce_rej", "raft", "a_grae", "avspo_noise",
    "avspo_opposite", "avspo_ladder", "avspo_prior"
]
SIZES = [(8, 10_000), (16, 10_000), (64, 10_000), (8, 1_000_000)]
PEERS = {"numpy": numpy, "torch": torch}


def settings(name):
    estimator, _, mode = name.partition("_") if name.startswith("avspo_") else (name, "", "")
    chosen = [f"run.algorithm.advantage={estimator}"]
    if mode:
        chosen += [f"run.algorithm.avspo.mode={mode}", "run.algorithm.avspo.ladder.threshold=0.3"]
    return [x for s in chosen for x in ("--set", s)]


def make_batch(folder, size, groups):
    random = numpy.random.default_rng(20260101)
    rates = random.choice([0.0, 1.0, 0.2, 0.5, 0.8],
                          size=(groups, 1),
                          p=[0.3, 0.25, 0.15, 0.15, 0.15])
    rewards = (random.random((groups, size)) < rates).astype(numpy.float64)
    lengths = random.integers(1, 512, (groups, size), dtype=numpy.int32)
    components = numpy.stack([rewards, random.random((groups, size))], axis=2)
    for name, array in (("rewards", rewards), ("lengths", lengths), ("components", components)):
        (folder / name).write_bytes(array.tobytes())
    history = {"correct": numpy.full(groups, 3.0), "scored": numpy.full(groups, 8.0)}
    return dict(r=rewards, lengths=lengths.astype(numpy.float64), components=components, **history)


def best_of(call, seconds):
    best, stop = math.inf, time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        call()
        end = time.perf_counter()
        best = min(best, end - begin)
        if end > stop:
            return best


def compare(name, ours, theirs):
    """Exits if the advantages differ. avspo_noise is not compared: it draws its own numbers."""
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    worst = float(numpy.abs(ours - numpy.asarray(theirs).reshape(-1)).max())
    if worst > 1e-7 and name != "avspo_noise":
        raise SystemExit(f"{name}: advantages differ by {worst}")


def run_ours(name, folder, size, seconds, work):
    command = [
        OURS, folder, "--group-size", size, "--seconds", seconds, "--out", folder / "advantages",
        *settings(name)
    ]
    command += ["--formula"] if work == "formula" else []
    return float(
        subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True,
                       check=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick",
                        action="store_true",
                        help="a tenth of the time, no million groups")
    options = parser.parse_args()
    seconds = 0.05 if options.quick else 0.5
    torch.set_num_threads(1)
    behind = []
    if not options.json:
        print(f"{'ns/group':45s} {'ours':>9s} {'numpy':>9s} {'torch':>9s}")
    for size, groups in SIZES[:3] if options.quick else SIZES:
        with tempfile.TemporaryDirectory() as temp:
            folder = pathlib.Path(temp)
            numbers = make_batch(folder, size, groups)
            batches = {
                "numpy": types.SimpleNamespace(**numbers), "torch":
                    types.SimpleNamespace(**{k: torch.from_numpy(v) for k, v in numbers.items()})
            }
            for name in NAMES:
                formula = getattr(formulas, name)
                print(f"{name} G={size} K={groups}", file=sys.stderr)
                for work in ("batch", "formula"):
                    case = f"{name} G={size} K={groups} {work}"
                    ours = run_ours(name, folder, size, seconds, work)
                    times = {}
                    for peer, xp in PEERS.items():
                        arrays, batch = formulas.Arrays(xp), batches[peer]
                        compare(name, numpy.fromfile(folder / "advantages"), formula(arrays, batch))
                        whole = lambda: formulas.batch(
                            arrays, batch, formula) if work == "batch" else formula(arrays, batch)
                        times[peer] = best_of(whole, seconds) * 1e9 / groups
                        if times[peer] < ours:
                            behind.append(f"{case}: {ours:.1f} ns, {peer} {times[peer]:.1f} ns")
                        if options.json:
                            print(json.dumps({
                                "bench": "advantages", "case": case, "ours": ours,
                                "peer": times[peer], "peer_name": peer, "unit": "ns/group",
                                "ratio": times[peer] / ours
                            }),
                                  flush=True)
                    if not options.json:
                        print(f"{case:45s} {ours:9.1f} {times['numpy']:9.1f} {times['torch']:9.1f}",
                              flush=True)
    for line in behind:
        print("behind:", line, file=sys.stderr)


main()
