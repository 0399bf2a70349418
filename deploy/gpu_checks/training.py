"""Training on the device: steps next to the CPU's, two ranks next to one, a run that is resumed."""
import array
import json
import os
import re
import signal
import struct
import subprocess
import time

from gpu_checks.machine import Failed, Skipped, last_lines

STEPS = 8
RUN_STEPS = 6
RUN_SECONDS = 600
# AdamW divides by the size of a gradient, so rounding moves a weight whose gradient is near 0.
BOUND = 0.02  # distance of the weights, as a share of what training moved them


def make_task(machine):
    """Makes problems and a small model once, and returns their folder."""
    folder = machine.folder / "task"
    if not folder.exists():
        machine.run("buttress", "task", "countdown", "--out", folder, "--numbers", 4,
                    "--operators", "+-", "--use-all", "--format", "compact", "--train", 500,
                    "--held-out", 20, "--sft", 1000, "--seed", 1)
        machine.run("buttress", "new-model", "--out", folder / "new", "--characters",
                    "0123456789+-:>", "--layers", 2, "--hidden", 64, "--heads", 2,
                    "--intermediate", 128)
        fine_tune(machine, folder / "model", "cpu", 0.0)
    return folder


def sft_words(machine, model, out, device, lr):
    task = machine.folder / "task"
    return ["sft", "--model", model, "--data", task / "sft.jsonl", "--out", out, "--steps", STEPS,
            "--batch", 32, "--lr", lr, "--warmup", 1, "--seed", 1, "--device", device]


def fine_tune(machine, out, device, lr):
    """Trains new weights; with a rate of 0, draws them."""
    model = machine.folder / "task" / ("model" if lr > 0 else "new")
    machine.run("buttress", *sft_words(machine, model, out, device, lr))


def read_weights(folder):
    """The values of a float32 safetensors file, tensor after tensor."""
    raw = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8:8 + size])
    entries.pop("__metadata__", None)
    values = array.array("f")
    for name in sorted(entries):
        if entries[name]["dtype"] != "F32":
            raise Failed(f"{folder}: {name} is {entries[name]['dtype']}, not F32")
        begin, end = entries[name]["data_offsets"]
        values.frombytes(raw[8 + size + begin:8 + size + end])
    return values


def distance(a, b):
    return sum((x - y)**2 for x, y in zip(a, b, strict=True))**0.5


def compare_weights(machine, ours, theirs):
    before = read_weights(machine.folder / "task/model")
    moved = distance(before, read_weights(theirs))
    apart = distance(read_weights(ours), read_weights(theirs))
    if not moved > 0 or not apart < BOUND * moved:
        raise Failed(f"the weights moved by {moved:.3g} and differ by {apart:.3g}; "
                     f"the bound is {BOUND:.0%}")
    return f"{STEPS} steps, weights differ by {apart / moved:.1e} of their way"


def steps(machine):
    make_task(machine)
    fine_tune(machine, machine.folder / "on_cpu", "cpu", 1e-3)
    fine_tune(machine, machine.folder / "on_device", machine.device, 1e-3)
    return compare_weights(machine, machine.folder / "on_device", machine.folder / "on_cpu")


def two_ranks(machine):
    make_task(machine)
    one, two = machine.folder / "one_rank", machine.folder / "two_ranks"
    fine_tune(machine, one, machine.device, 1e-3)
    words = sft_words(machine, machine.folder / "task/model", two, machine.device, 1e-3)
    shared = ["--share-gpu"] if len(machine.gpus) == 1 else []
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    machine.run("/usr/bin/env", "mpirun", "-np", 2, "--bind-to", "none", "--oversubscribe", *root,
                machine.bin / "learner", *words, *shared)
    gpus = "one GPU" if shared else "a GPU each" if machine.gpus else "CPUs"
    return compare_weights(machine, two, one) + f", {gpus}"


def nccl_suite(machine):
    if machine.device == "cpu":
        raise Skipped("NCCL needs a GPU")
    printed = machine.run("/usr/bin/env", "ctest", "--test-dir", machine.bin.parent, "-R",
                          "^collective_nccl", "--no-tests=error")
    passed = len(re.findall(r"\.+ +Passed", printed))
    if passed == 0:
        raise Failed("ctest ran no test: " + last_lines(printed))
    return f"{passed} tests"


def run_yaml(machine, task):
    device = machine.device
    collective = "local" if device == "cuda" else "mpi"
    return f"""
run:
  name: gpu_check
  steps: {RUN_STEPS}
  checkpoint_interval: 2
  lease_ms: 5000
  data: {{prompts: {task}/train.jsonl}}
  model: {{path: {task}/model, dtype: bfloat16}}
  sampling: {{group_size: 4, max_tokens: 8}}
  batch: {{prompts: 8, max_age: 1}}
  reward: {{verifier: countdown, use_all: true}}
  algorithm: {{advantage: avspo, avspo: {{mode: opposite}}}}
  optim: {{lr: 1e-3}}
local:
  out: {machine.folder}/run
  worker: {{device: {device}, gpu: 0}}
  learner: {{device: {device}, collective: {collective}}}
  launch: {{workers: 1, learner_ranks: 1}}
"""


def steps_done(machine):
    path = machine.folder / "run/steps.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")]


def launch(machine, interrupt_after=None):
    """Runs `buttress launch`, and interrupts it after a step. Returns the exit code."""
    log = machine.folder / "launch.log"
    deadline = time.monotonic() + RUN_SECONDS
    with open(log, "w", encoding="utf-8") as out:
        words = [machine.bin / "buttress", "launch", machine.folder / "run.yaml"]
        try:
            process = subprocess.Popen(words, stdout=out, stderr=out)
        except OSError as error:
            raise Failed(f"buttress launch: {error}") from error
        while process.poll() is None and time.monotonic() < deadline:
            if interrupt_after and len(steps_done(machine)) >= interrupt_after:
                process.send_signal(signal.SIGINT)
                interrupt_after = None
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
            process.wait()
            raise Failed(f"buttress launch: not done after {RUN_SECONDS} s")
    if process.returncode not in (0, 130):
        raise Failed(f"buttress launch: exit code {process.returncode}: "
                     f"{last_lines(log.read_text())}")
    return process.returncode


def interrupted_run(machine):
    (machine.folder / "run.yaml").write_text(run_yaml(machine, make_task(machine)))
    interrupted = launch(machine, interrupt_after=2) == 130
    if interrupted:
        launch(machine)
    rows = steps_done(machine)
    numbers = [row["step"] for row in rows]
    if numbers != list(range(1, RUN_STEPS + 1)):
        raise Failed(f"steps.jsonl has the steps {numbers}, expected 1 to {RUN_STEPS}")
    return (f"{RUN_STEPS} steps in bfloat16, " +
            ("resumed after an interrupt" if interrupted else "ended before the interrupt"))
