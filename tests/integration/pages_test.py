"""Runs every command of a page, or of several one after the other, in an empty folder, compares
what it prints, and checks what the commands of some pages have made.

pages_test.py BUTTRESS PAGE...

A block marked as text holds lines that the block of commands above it prints, or their ends.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    """Below the ports that the system gives to programs, of which one may ask meanwhile."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def blocks(page):
    """(commands, expected lines) of each bash block, in their order."""
    text = page.read_text().replace(":8100", f":{free_port()}")  # of the service of agents
    found = re.findall(r"^```bash\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text,
                       re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no commands"
    return [(commands, expected.splitlines()) for commands, expected in found]


def run_page(page, folder, environment):
    for commands, expected in blocks(page):
        # A file, unlike a pipe, has its end although a program of the block may run on.
        with tempfile.TemporaryFile("w+") as output:
            status = subprocess.run(["bash", "-euc", commands], cwd=folder, env=environment,
                                    stdout=output, stderr=subprocess.STDOUT).returncode
            output.seek(0)
            printed = output.read()
        print(commands, printed, flush=True)
        assert status == 0, f"status {status}"
        for line in expected:
            assert any(found.startswith(line) or f"\t{line}" in found
                       for found in printed.splitlines()), f"not printed: {line}"


def check_own_task(folder):
    """The run of digits learned, and that of chats as well."""
    summary = json.loads((folder / "out/summary.json").read_text())
    before, after = summary["accuracy_before"], summary["accuracy_after"]
    assert after > before + 0.05, f"held-out accuracy {before} before, {after} after"
    learned = summary["learned"]
    assert learned["held_out"]["verdict"] == "rose", learned
    assert learned["accuracy"]["verdict"] == "rose", learned
    assert "cause" not in learned, learned
    chat = json.loads((folder / "chat_out/summary.json").read_text())
    # A completion is right only where <|im_end|> ended it.
    assert chat["learned"]["accuracy"]["last"] > 0.2, chat["learned"]


def check_agents(folder):
    """Every episode was scored, and the agent learned."""
    first, steps = (list(map(json.loads, (folder / out / "steps.jsonl").read_text().splitlines()))
                    for out in ("first", "out"))
    assert len(first) == 3 and not any(step["unscorable"] for step in first), first
    rewards = [step["raw_reward_mean"] for step in steps]
    tenth = len(rewards) // 10
    before, after = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    assert after > before + 0.1, f"rewards {rewards}"


CHECKS = {"own_task": check_own_task, "agents": check_agents}


def main():
    path = os.pathsep.join([str(pathlib.Path(sys.argv[1]).resolve().parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path}
    with tempfile.TemporaryDirectory() as folder:
        for page in map(pathlib.Path, sys.argv[2:]):
            if page.stem == "agents":
                environment["PYTHONPATH"] = str(ROOT / "python")
            run_page(page, folder, environment)
            CHECKS.get(page.stem, lambda _: None)(pathlib.Path(folder))


main()
