"""Clang's thread-safety analysis of every C++ file of a build folder; nothing is linked.

    thread_annotations.py BUILD_FOLDER [PATH...]

BUILD_FOLDER is one that the preset clang has configured; PATH begins the paths of the files that
are checked (default: all).

The preset compiles without precompiled headers, so a missing include is found as well.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

from sources import ROOT, finish


def commands(build):
    """(path, command) of every file of the project; generated files are left out."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT) and not path.is_relative_to(build):
            words = shlex.split(entry["command"])
            start = next(i for i, word in enumerate(words) if word.endswith("clang++-14"))
            words = words[start:words.index("-o")] + ["-fsyntax-only", str(path)]
            yield str(path.relative_to(ROOT)), entry["directory"], words


def check(command):
    path, folder, words = command
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    errors = [line if line.startswith(str(ROOT)) else f"{path}: {line}"
              for line in run.stderr.splitlines() if " error: " in line]
    return [] if run.returncode == 0 else errors or [f"{path}: {run.stderr[-500:]}"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    prefixes = tuple(sys.argv[2:]) or ("",)
    found = [command for command in commands(build) if command[0].startswith(prefixes)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = sorted({problem for result in pool.map(check, found) for problem in result})
    finish(problems, f"thread annotations hold in {len(found)} files")


if __name__ == "__main__":
    main()
