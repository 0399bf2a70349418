"""Words and constructs that have no place here."""
import re

from sources import ROOT, finish, sources

RULES = {
    r"\b(TODO|FIXME|XXX)\b": "finish it, or name it in an issue",
    r"std::regex": "crashes and stalls on model output; parse by hand or with PCRE2 under limits",
    r"catch \(\.\.\.\)": "catch what can be thrown",
    r"\btorch::load\(": "runs pickle; weights are safetensors",
    r"\b(for now|in production this|simplified version|placeholder)\b": "say what is, or build it",
    r"using namespace (?!std::chrono_literals|std::chrono;)": "flat namespace, named uses",
}

problems = []
for path in sources():
    if path.startswith("tests/"):
        continue
    for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
        for rule, mend in RULES.items():
            if re.search(rule, line):
                problems.append(f"{path}:{number}: {line.strip()[:80]}: {mend}")
finish(problems, "wording holds")
