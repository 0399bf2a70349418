"""The checks of gpu_check.sh: each runs real programs and compares what they print or write."""
import argparse
import pathlib
import sys
import tempfile

import cuda_selftest
from gpu_checks import model, speed, training
from gpu_checks.machine import Failed, Machine, Skipped

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALL_SKIPPED = 77


def library_opens(machine):
    if machine.device == "cpu":
        raise Skipped("CPUs need none")
    missing = cuda_selftest.missing_libraries(str(machine.bin / "libbuttress_cuda.so"))
    if missing:
        raise Failed(f"missing: {', '.join(sorted(missing))}; run deploy/setup.sh --cuda")
    return "; ".join(machine.gpus)


CHECKS = (
    ("CUDA library, GPUs", library_opens),
    ("log-probs, float32", model.logprobs),
    ("log-probs, bfloat16", model.logprobs_bfloat16),
    ("greedy generation", model.generation),
    ("training steps next to the CPU", training.steps),
    ("two ranks next to one", training.two_ranks),
    ("NCCL suite, two ranks", training.nccl_suite),
    ("run with interrupt and resume", training.interrupted_run),
    ("speed of training", speed.ours),
    ("speed next to transformers", speed.beside_transformers),
)


def run_check(check, machine):
    """Returns the state and the text of a check."""
    if machine.why_no_gpu:
        return "skipped", machine.why_no_gpu
    try:
        return "passed", check(machine)
    except Skipped as why:
        return "skipped", str(why)
    except Failed as why:
        return "failed", str(why)


def main():
    parser = argparse.ArgumentParser(prog="deploy/gpu_check.sh")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of the programs; nothing is built")
    options = parser.parse_args()
    states = []
    with tempfile.TemporaryDirectory(prefix="gpu_check") as folder:
        machine = Machine(options.device, options.bin, pathlib.Path(folder))
        for name, check in CHECKS:
            state, text = run_check(check, machine)
            states.append(state)
            print(f"{name:30s}  {state:7s}  {text}", flush=True)
    counts = (f"{states.count(state)} {state}" for state in ("passed", "failed", "skipped"))
    print(f"gpu_check: {', '.join(counts)}")
    if "failed" in states:
        sys.exit(1)
    sys.exit(0 if "passed" in states else ALL_SKIPPED)


if __name__ == "__main__":
    main()
