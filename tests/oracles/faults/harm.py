"""A task, waits, and harm to files."""

import subprocess
import time

PATIENCE_S = 300


class Failed(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Failed(what)


def wait_for(what, holds, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not holds():
        require(time.monotonic() < end, f"waited {seconds} s for {what}")
        time.sleep(0.02)


def make_task(programs, folder):
    """A dataset and a model that a run of many steps takes a minute or two for."""
    def buttress(*arguments):
        done = subprocess.run([programs / "buttress", *map(str, arguments)], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        require(done.returncode == 0, f"{arguments[0]}: {done.stdout}{done.stderr}")

    buttress("task", "countdown", "--out", folder, "--numbers", 4, "--operators", "+-", "--use-all",
             "--format", "compact", "--train", 4000, "--held-out", 50, "--sft", 4000, "--seed", 1)
    buttress("new-model", "--out", folder / "new", "--characters", "0123456789+-:>", "--layers", 2,
             "--hidden", 64, "--heads", 2, "--intermediate", 128)
    buttress("sft", "--model", folder / "new", "--data", folder / "sft.jsonl", "--out",
             folder / "model", "--steps", 40, "--batch", 64, "--lr", "3e-3", "--warmup", 5,
             "--seed", 1)


def flip(path, offset):
    """Inverts a bit of the byte there."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def fill(path):
    """Makes a file that takes all room of its disk."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
