"""Runs every command of docs/agents.md in an empty folder, and checks that the agent learned.

agents_page_test.py BUTTRESS
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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
