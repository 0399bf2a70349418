"""Runs every command of a page in an empty folder and compares what it prints.

pages_test.py BUTTRESS PAGE

A block marked as text holds lines that the block of commands above it prints, or their ends.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(page):
    """(commands, expected lines) of each bash block, in their order."""
    found = re.findall(r"^```bash\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", page.read_text(),
                       re.MULTILINE | re.DOTALL)
    return [(commands, expected.splitlines()) for commands, expected in found]


def main():
    programs, page = str(pathlib.Path(sys.argv[1]).parent), pathlib.Path(sys.argv[2])
    environment = os.environ | {"PATH": programs + ":" + os.environ["PATH"]}
    found = blocks(page)
    assert found, f"{page} has no commands"
    with tempfile.TemporaryDirectory() as folder:
        for commands, expected in found:
            done = subprocess.run(["bash", "-euc", commands], cwd=folder, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(commands, done.stdout, flush=True)
            assert done.returncode == 0, f"status {done.returncode}"
            for line in expected:
                assert any(printed.startswith(line) or f"\t{line}" in printed
                           for printed in done.stdout.splitlines()), f"not printed: {line}"


main()
