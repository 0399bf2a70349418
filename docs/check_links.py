"""Checks README.md and docs/*.md: every relative link, its heading, and every named path exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("lib", "coordinator", "rollout_worker", "learner", "cli", "bench", "tests", "proto",
           "cmake", "configs", "deploy", "docs")
NAMED_PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(text):
    """Yields (number, line) of the lines outside of code blocks."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchors(text):
    """The anchors that a Markdown viewer makes of the headings of a page."""
    headings = (line.lstrip("# ") for _, line in prose(text) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
            for heading in headings}


def check(path, text):
    """Returns the problems of the page `path`, relative to the root."""
    problems = []
    for number, line in prose(text):
        for target in LINK.findall(line):
            name, _, anchor = target.partition("#")
            file = (ROOT / path).parent / name if name else ROOT / path
            if re.match(r"[a-z]+:", target):
                continue
            if name and not file.exists():
                problems.append(f"{path}:{number}: link to {target}, which does not exist")
            elif anchor and anchor not in anchors(file.read_text() if name else text):
                problems.append(f"{path}:{number}: link to {target}, which has no such heading")
        for name in NAMED_PATH.findall(line):
            if "NAME" not in name and not (ROOT / name).exists():
                problems.append(f"{path}:{number}: `{name}` does not exist")
    return problems


BAD = ("[a](nowhere.md)", "[a](#no-heading)", "`lib/nowhere.h`")
GOOD = ("[a](../README.md)", "# A heading\n[a](#a-heading)", "`lib/base/status.h`",
        "[a](https://example.org)", "```\n[a](nowhere.md)\n```")
problems = [f"this check misses: {text}" for text in BAD if len(check("docs/x.md", text)) != 1]
problems += [f"this check reports: {text}" for text in GOOD if check("docs/x.md", text)]
for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
    problems += check(str(page.relative_to(ROOT)), page.read_text())
for problem in problems:
    print(problem)
sys.exit(f"{len(problems)} problems" if problems else 0)
