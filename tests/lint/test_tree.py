"""Tests are built, run by ctest, and stand where their sources do.

test_tree.py [BUILD_FOLDER]      with a folder: its ctest must know every test that is declared
"""

import json
import pathlib
import re
import subprocess
import sys

from sources import ROOT, files, finish, read

UNIT = "tests/unit/"


def check_is_built(path, listing):
    """`listing` is the text of the CMakeLists.txt files above the test."""
    if re.search(rf"\b{re.escape(pathlib.PurePath(path).name)}\b", listing):
        return []
    return [f"{path} is in no CMakeLists.txt: a test that is not built is not a test"]


def check_mirrors(path, exists):
    """`exists(folder)` says whether the repository has that folder."""
    folder = str(pathlib.PurePath(path).parent).removeprefix(UNIT)
    if exists(f"lib/{folder}") or exists(folder):
        return []
    return [
        f"{path}: neither lib/{folder} nor {folder} exists; "
        "a unit test is in the folder of its source, below tests/unit/"
    ]


def declared_tests(listing):
    return re.findall(r"^ *buttress_test\(\s*(\w+)", listing, re.MULTILINE)


def check_is_run(declared, known):
    return [
        f"{name} is declared, but ctest does not know it" for name in declared if name not in known
    ]


def ctest_names(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                           capture_output=True,
                           text=True,
                           check=True,
                          ).stdout
    return {test["name"] for test in json.loads(shown)["tests"]}


def main():
    problems = []
    for path in files(("_test.cc",), ("tests",)):
        above = [folder / "CMakeLists.txt" for folder in pathlib.PurePath(path).parents]
        listed = [read(listing) for listing in above if (ROOT / listing).is_file()]
        problems += check_is_built(path, "".join(listed))
    for path in files(("CMakeLists.txt",), (UNIT,)):
        problems += check_mirrors(path, lambda folder: (ROOT / folder).is_dir())
    listings = files(("CMakeLists.txt",), ("tests",))
    if len(sys.argv) > 1:
        declared = [name for path in listings for name in declared_tests(read(path))]
        problems += check_is_run(declared, ctest_names(sys.argv[1]))
    finish(problems, "every test is built and run, and mirrors its source")


if __name__ == "__main__":
    main()
