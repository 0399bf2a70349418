"""Sizes: prints how many files and lines there are by folder, and bounds both (tests apart).

python3 tests/lint/sizes.py
"""

import collections
import pathlib

from sources import CPP, PROGRAMS, files, finish, read

LONGEST, NINTH_DECILE, MEDIAN = 600, 400, 150
FILES_IN_A_FOLDER = 30
CODE = (*CPP, ".proto", ".py", ".sh", ".cmake", "CMakeLists.txt")


def count_lines(paths):
    return {path: read(path).count("\n") for path in paths}


def check_lengths(lines):
    """`lines` maps the path of each C++ file to its number of lines."""
    counts = sorted(lines.values())
    median, ninth_decile = counts[len(counts) // 2], counts[len(counts) * 9 // 10]
    problems = [
        f"{path}: {n} lines; split it, {LONGEST} is the bound" for path, n in lines.items()
        if n > LONGEST
    ]
    if median > MEDIAN:
        problems.append(f"the median file has {median} lines, {MEDIAN} is the bound")
    if ninth_decile > NINTH_DECILE:
        problems.append(
            f"one file in ten has more than {ninth_decile} lines, {NINTH_DECILE} is the bound")
    return problems


def check_folders(paths):
    """No folder is a drawer: its own C++ files, without those of subfolders, are few."""
    folders = collections.Counter(str(pathlib.PurePath(path).parent) for path in paths)
    return [
        f"{folder}: {n} C++ files; group them, {FILES_IN_A_FOLDER} is the bound"
        for folder, n in sorted(folders.items())
        if n > FILES_IN_A_FOLDER
    ]


def print_table(lines):
    folders = collections.defaultdict(list)
    for path, n in lines.items():
        parts = path.split("/")
        folders["/".join(parts[:2]) if parts[0] == "lib" else parts[0]].append(n)
    print(f"{'folder':<18} {'files':>5} {'lines':>7} {'median':>6}")
    for folder, counts in (*sorted(folders.items()), ("all", list(lines.values()))):
        counts = sorted(counts)
        print(f"{folder:<18} {len(counts):>5} {sum(counts):>7} {counts[len(counts) // 2]:>6}")


def main():
    everything = ("lib", "proto", *PROGRAMS, "bench", "deploy", "docs", "cmake", "tests")
    print("Code of every language:")
    print_table(count_lines(files(CODE, everything)))
    cpp = count_lines(files(CPP, ("lib", *PROGRAMS, "bench")))
    counts = sorted(cpp.values())
    print(f"C++ outside tests: {len(counts)} files, {sum(counts)} lines, "
          f"median {counts[len(counts) // 2]}, ninth decile {counts[len(counts) * 9 // 10]}, "
          f"longest {counts[-1]}")
    finish(check_lengths(cpp) + check_folders(files(CPP)), "sizes hold")


if __name__ == "__main__":
    main()
