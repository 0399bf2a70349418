"""Words and constructs that have no place here, and citations of documents that are elsewhere."""

import re

from sources import CPP, ROOT, check_files, files, finish, read

CODE_RULES = {
    r"std::regex": "it crashes and stalls on model output; parse by hand, or with PCRE2",
    r"catch \(\.\.\.\)": "catch what can be thrown",
    r"\btorch::load\(": "it runs pickle; weights are safetensors",
    r"using namespace (?!std::chrono_literals|std::chrono;)": "name what is used",
}
TEXT_RULES = {
    r"\b(TODO|FIXME|XXX)\b": "finish it, or name it in an issue",
    r"\b(for now|in production this|simplified version|placeholder)\b": "say what is, or build it",
    r"\bthe brief('s)?\b": "nobody outside has it; cite the paper, or state the rule",
    r"(?<![\w.$])(\.\./)?shared/(design|review)\b": "it is outside the repository",
}
TEXTS = (*CPP, ".proto", ".py", ".sh", ".cmake", "CMakeLists.txt", ".yaml", ".md", "packages.txt")
DOCUMENT = re.compile(r"(?<![\w/.:-])((?:\.\./)*[\w][\w/-]*\.md)\b")
README_LINES = 130


def is_code(path):
    return path.endswith(CPP) and not path.startswith("tests/")


def check(path, text):
    """A document is cited by its path from the root, or from the folder of the citing file."""
    rules = {**TEXT_RULES, **(CODE_RULES if is_code(path) else {})}
    rules = {rule: mend for rule, mend in rules.items() if re.search(rule, text)}
    if not rules and ".md" not in text:
        return []
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        at = f"{path}:{number}"
        for rule, mend in rules.items():
            if re.search(rule, line):
                problems.append(f"{at}: {line.strip()[:80]}: {mend}")
        for document in DOCUMENT.findall(line):
            beside = (ROOT / path).parent / document
            if not (ROOT / document).is_file() and not beside.is_file():
                problems.append(f"{at}: cites {document}, which the repository does not have; "
                                "cite the paper, or a file of this repository by its path")
    return problems


def check_readme(text):
    lines = text.count("\n")
    return [f"README.md: {lines} lines; move what is for the second day to docs/, "
            f"{README_LINES} is the bound"] if lines > README_LINES else []


if __name__ == "__main__":
    paths = [p for p in files(TEXTS) if not p.startswith("tests/lint/")]
    finish(check_files(paths, check) + check_readme(read("README.md")), "wording holds")
