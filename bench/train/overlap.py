"""Measures how much of the sum of the gradients two ranks hide behind their backward passes on a
slow link: two network namespaces with one link, of which both ends send at most so fast. Prints for
each shape the seconds of a step, and those in which a rank waits for the sums, without a limit, and
with it where MPI moves data only inside its calls, and with the thread of the MPI back end
(lib/collectives/mpi.cc). Needs root and bench_train.

    bench/train/overlap.py [--rate 1gbit] [--cases wide ...] [--rounds 3]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import shapes

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/bench_train"
ENDS = {"bench-a": "10.77.0.1", "bench-b": "10.77.0.2"}
# Groups, completions of one, tokens of a prompt and of a completion; each group is a micro-batch.
LOADS = {"quickstart": (2, 16, 32, 64), "wide": (2, 8, 32, 64)}
STEPS = 2  # measured, after one that is not
UNITS = {"mbit": 1e6, "gbit": 1e9}
# Between the program and MPI: measures how long the program asks for a sum before it is there, and
# with NO_THREAD set asks for less than MPI_THREAD_MULTIPLE, without which there is no thread.
SHIM = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static struct { MPI_Request request; double asked; } sums[64];
static double waited;
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  if (getenv("NO_THREAD")) required = MPI_THREAD_FUNNELED;
  return PMPI_Init_thread(argc, argv, required, provided);
}
int MPI_Ialltoall(const void* from, int sent, MPI_Datatype type, void* to, int got,
                  MPI_Datatype other, MPI_Comm comm, MPI_Request* request) {
  int i = 0, error = PMPI_Ialltoall(from, sent, type, to, got, other, comm, request);
  while (i < 63 && sums[i].request) ++i;
  sums[i].request = *request;
  sums[i].asked = 0;
  return error;
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  int i = 0;
  while (i < 63 && sums[i].request != *request) ++i;
  if (i < 63 && sums[i].asked == 0) sums[i].asked = MPI_Wtime();
  int error = PMPI_Test(request, done, status);
  if (i == 63 || !*done) return error;
  waited += MPI_Wtime() - sums[i].asked;
  sums[i].request = 0;
  return error;
}
int MPI_Finalize(void) {
  fprintf(stderr, "waited %.6f\\n", waited);
  return PMPI_Finalize();
}
"""


def call(*words):
    subprocess.run([str(word) for word in words], check=True)


def bits_per_second(rate):
    unit = next((unit for unit in UNITS if rate.endswith(unit)), None)
    if unit is None:
        sys.exit(f"--rate {rate}: expected a number and one of {', '.join(UNITS)}")
    return float(rate.removesuffix(unit)) * UNITS[unit]


class Link:
    """Two namespaces with a link between them."""

    def __enter__(self):
        self.__exit__()
        for name in ENDS:
            call("ip", "netns", "add", name)
        first, second = ENDS
        call("ip", "link", "add", "link0", "netns", first, "type", "veth", "peer", "name", "link0",
             "netns", second)
        for name, address in ENDS.items():
            call("ip", "-n", name, "addr", "add", address + "/24", "dev", "link0")
            call("ip", "-n", name, "link", "set", "link0", "up")
            call("ip", "-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in ENDS:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    def limit(self, rate):
        for name in ENDS:
            device = ["tc", "-n", name, "qdisc"]
            subprocess.run([*device, "del", "dev", "link0", "root"], stderr=subprocess.DEVNULL,
                           check=False)
            if rate:
                call(*device, "add", "dev", "link0", "root", "tbf", "rate", rate, "burst", "256kb",
                     "latency", "50ms")


def step(folder, case, shim, thread):
    """Returns of a step its seconds, those of waiting for sums, and the bytes that a rank sums."""
    first, second = ENDS
    agent = folder / "agent.sh"
    agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {second} sh -c "$*"\n')
    agent.chmod(0o755)
    groups, size, prompt, completion = LOADS[case]
    mpirun = ["ip", "netns", "exec", first, "mpirun", "--allow-run-as-root", "--bind-to", "none",
              "-np", 2, "-H", ",".join(ENDS.values()), "--mca", "plm_rsh_agent", agent, "--mca",
              "btl", "tcp,self", "--mca", "btl_tcp_if_include", "link0", "--mca",
              "oob_tcp_if_include", "link0", "-x", f"LD_PRELOAD={shim}"]
    if not thread:
        mpirun += ["-x", "NO_THREAD=1"]
    bench = [BENCH, folder, "--device", "cpu", "--dtype", "float32", "--threads", 1, "--fixed",
             "--zero", 1, "--groups", groups, "--group-size", size, "--most-prompt", prompt,
             "--most", completion, "--micro-batch-tokens", prompt + size * completion, "--steps",
             STEPS]
    done = subprocess.run([str(word) for word in mpirun + bench], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    row = json.loads(done.stdout.strip().splitlines()[-1])
    waited = [float(line.split()[1]) for line in done.stderr.splitlines()
              if line.startswith("waited ")]
    return (row["seconds"] / STEPS, statistics.mean(waited) / (STEPS + 1),
            row["reduced_bytes"] / STEPS)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", default="1gbit")
    options.add_argument("--cases", nargs="*", choices=list(LOADS), default=list(LOADS))
    options.add_argument("--rounds", type=int, default=3, help="of which the medians are shown")
    options = options.parse_args()
    if os.geteuid() != 0:
        sys.exit("overlap.py: network namespaces need root")
    bits = bits_per_second(options.rate)
    print(f"{'shape':12} {'link':10} {'progress':9} {'step s':>8} {'waits s':>8}")
    with Link() as link, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shim = folder / "shim.so"
        source = folder / "shim.c"
        source.write_text(SHIM)
        call("mpicc", "-shared", "-fPIC", "-o", shim, source)
        for case in options.cases:
            shapes.write_model(folder, case)
            variants = {("no limit", "thread"): [], (options.rate, "calls"): [],
                        (options.rate, "thread"): []}
            for _ in range(options.rounds):
                for (rate, progress), rows in variants.items():
                    link.limit(None if rate == "no limit" else rate)
                    rows.append(step(folder, case, shim, progress == "thread"))
            medians = {variant: [statistics.median(column) for column in zip(*rows)]
                       for variant, rows in variants.items()}
            for (rate, progress), (seconds, waited, _) in medians.items():
                print(f"{case:12} {rate:10} {progress:9} {seconds:8.3f} {waited:8.3f}")
            free, calls, thread = (row[1] for row in medians.values())
            # Of two ranks, each sends half of what it sums.
            sent = 8 * medians["no limit", "thread"][2] / 2 / bits
            print(f"{case:12} the link needs {sent:.3f} s for the sums of a step; hidden: "
                  f"{1 - (calls - free) / sent:.0%} by calls, {1 - (thread - free) / sent:.0%} "
                  f"with the thread", flush=True)


if __name__ == "__main__":
    main()
