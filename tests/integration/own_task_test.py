"""Runs every command of docs/own_task.md in an empty folder, checks that the run learned, and runs
every command of docs/not_learning.md there.

own_task_test.py BUTTRESS
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def run_commands(page, folder, environment):
    """Runs the blocks of the page that are marked as bash, in their order."""
    text = (DOCS / f"{page}.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5, f"{page} has {len(blocks)} blocks of commands"
    for block in blocks:
        print(block, flush=True)
        subprocess.run(["bash", "-euc", block], cwd=folder, env=environment, check=True)


def main():
    programs = str(pathlib.Path(sys.argv[1]).parent)
    environment = os.environ | {"PATH": programs + ":" + os.environ["PATH"]}
    with tempfile.TemporaryDirectory() as folder:
        run_commands("own_task", folder, environment)
        summary = json.loads((pathlib.Path(folder) / "out/summary.json").read_text())
        chat = json.loads((pathlib.Path(folder) / "chat_out/summary.json").read_text())
        run_commands("not_learning", folder, environment)
    before, after = summary["accuracy_before"], summary["accuracy_after"]
    assert after > before + 0.05, f"held-out accuracy {before} before, {after} after"
    learned = summary["learned"]
    assert learned["held_out"]["verdict"] == "rose", learned
    assert learned["accuracy"]["verdict"] == "rose", learned
    assert "cause" not in learned, learned
    # A completion is right only where <|im_end|> ended it.
    assert chat["learned"]["accuracy"]["last"] > 0.2, chat["learned"]


main()
