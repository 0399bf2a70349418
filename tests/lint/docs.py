"""Documentation: links and named paths exist, and every exit status is listed."""
import re

from sources import ROOT, files, finish

FOLDERS = ("bench", "cli", "cmake", "configs", "coordinator", "deploy", "docs", "k8s", "learner",
           "lib", "proto", "rollout_worker", "tests")


def prose(path):
    """Yields (number, line) outside of code blocks."""
    code = False
    for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchors(path):
    """The anchors that a Markdown viewer makes of the headings of a page."""
    headings = (line.lstrip("# ") for _, line in prose(path) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
            for heading in headings}


def dead_links(path):
    for number, line in prose(path):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (ROOT / path).parent / name if name else ROOT / path
            if not file.exists():
                yield f"{path}:{number}: link to {target}, which does not exist"
            elif anchor and anchor not in anchors(file):
                yield f"{path}:{number}: link to {target}, which has no such heading"


def dead_paths(path):
    """Files and folders of the repository that a page names and that do not exist."""
    named = rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`"
    for number, line in prose(path):
        for name in re.findall(named, line):
            if not (ROOT / name).exists() and "NAME" not in name:
                yield f"{path}:{number}: {name} does not exist"


def missing_statuses(code, page):
    """Statuses that ExitCode and CommandExitCode return and that the page's table lacks."""
    returned = set(re.findall(r"return (\d+);|kInterrupted = (\d+);", code))
    listed = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    return [f"docs/running.md: exit status {status} is not in the table"
            for status in sorted({a or b for a, b in returned} - listed, key=int)]


def main():
    pages = files((".md",), ("README.md", "docs"))
    problems = [problem for page in pages for check in (dead_links, dead_paths)
                for problem in check(page)]
    code = "".join((ROOT / "lib/base" / f).read_text()
                   for f in ("report/status.cc", "os/shutdown.cc"))
    problems += missing_statuses(code, (ROOT / "docs/running.md").read_text())
    finish(problems, f"{len(pages)} pages, no dead link or path")


if __name__ == "__main__":
    main()
