"""Runs every command of docs/agents.md in an empty folder, and checks that the agent learned.

agents_page_test.py BUTTRESS
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


def steps_of(folder, out):
    return list(map(json.loads, pathlib.Path(folder, out, "steps.jsonl").read_text().splitlines()))


def main():
    path = os.pathsep.join([str(pathlib.Path(sys.argv[1]).resolve().parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "python")}
    text = (ROOT / "docs/agents.md").read_text().replace(":8100", f":{free_port()}")
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4, f"{len(blocks)} blocks of commands"
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            print(block, flush=True)
            subprocess.run(["bash", "-euc", block], cwd=folder, env=environment, check=True)
        first = steps_of(folder, "first")
        assert len(first) == 3 and not any(step["unscorable"] for step in first), first
        rewards = [step["raw_reward_mean"] for step in steps_of(folder, "out")]
    tenth = len(rewards) // 10
    before, after = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    assert after > before + 0.1, f"rewards {rewards}"


main()
