"""Runs every command of docs/own_task.md in an empty folder, and checks that the run learned.

own_task_test.py BUTTRESS
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/own_task.md"


def commands():
    """The blocks of the page that are marked as bash, in their order."""
    return re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def main():
    programs = str(pathlib.Path(sys.argv[1]).parent)
    environment = os.environ | {"PATH": programs + ":" + os.environ["PATH"]}
    blocks = commands()
    assert len(blocks) >= 7, f"{PAGE} has {len(blocks)} blocks of commands"
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            print(block, flush=True)
            subprocess.run(["bash", "-euc", block], cwd=folder, env=environment, check=True)
        summary = json.loads((pathlib.Path(folder) / "out/summary.json").read_text())
    before, after = summary["accuracy_before"], summary["accuracy_after"]
    assert after > before + 0.05, f"held-out accuracy {before} before, {after} after"


main()
