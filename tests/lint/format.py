"""Format: clang-format 14 for C++ and protobuf, and at most 100 columns for every file.

In Markdown the bound holds for prose: not for tables, code blocks and lines with a link. In Python,
shell and YAML it does not hold for a line that is one long word, such as an address.
"""

import os
import re
import subprocess

from sources import CPP, ROOT, check_files, files, finish

COLUMNS = 100
FORMATTED = (*CPP, ".proto")
MEASURED = (*FORMATTED, ".py", ".sh", ".cmake", "CMakeLists.txt", ".yaml", ".md")
CLANG_FORMAT = os.environ.get("CLANG_FORMAT", "clang-format-14")


def check_columns(path, text):
    problems = []
    is_code_block = False
    for number, line in enumerate(text.split("\n"), 1):
        if path.endswith(".md"):
            is_code_block ^= line.lstrip().startswith("```")
            if is_code_block or line.startswith("|") or "](" in line:
                continue
        if len(line) > COLUMNS and len(line.split()) > 1:
            problems.append(f"{path}:{number}: {len(line)} columns, {COLUMNS} is the bound")
    return problems


def check_clang_format(paths):
    """`paths` are absolute, or relative to the root."""
    try:
        run = subprocess.run([CLANG_FORMAT, "--dry-run", "--Werror", *paths],
                             cwd=ROOT,
                             capture_output=True,
                             text=True,
                             check=False,
                            )
    except FileNotFoundError:
        return [f"{CLANG_FORMAT} is not installed; run deploy/setup.sh"]
    wrong = sorted(set(re.findall(r"^(.+?):\d+:\d+: error", run.stderr, re.MULTILINE)))
    if run.returncode != 0 and not wrong:
        return [f"{CLANG_FORMAT} failed: {run.stderr[-500:]}"]
    return [f"{path}: not formatted; run {CLANG_FORMAT} -i {path}" for path in wrong]


if __name__ == "__main__":
    finish(
        check_clang_format(files(FORMATTED)) + check_files(files(MEASURED), check_columns),
        "format holds",
    )
