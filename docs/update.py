"""Writes the generated parts of docs/*.md from what the programs print.

    update.py BUTTRESS DOCS [--check]

BUTTRESS is the path of the program `buttress`; `coordinator` is expected in the same folder. With
--check nothing is written, and the command fails if a page differs from what the programs print.
"""

import json
import pathlib
import re
import subprocess
import sys

BUTTRESS, DOCS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
CHECK = sys.argv[3:] == ["--check"]
BEGIN, END = "<!-- begin: written by docs/update.sh -->\n", "<!-- end -->"
SIZE = 8  # completions per group in the table of advantages
AVSPO = ["advantage=avspo", "std=population", "avspo.acr_threshold=0", "avspo.slope=1000"]
ADVANTAGE_ROWS = {  # name: settings below run.algorithm
    "grpo": [],
    "grpo, std population": ["std=population"],
    "dr_grpo": ["advantage=dr_grpo"],
    "rloo": ["advantage=rloo"],
    "opo": ["advantage=opo"],
    "pass_k": ["advantage=pass_k"],
    "pass_at_k, k 4": ["advantage=pass_at_k"],
    "a_grae, form paper": ["advantage=a_grae"],
    "a_grae, form released": ["advantage=a_grae", "a_grae.form=released"],
    "ngrpo": ["advantage=ngrpo", "std=population"],
    "avspo, mode opposite": AVSPO + ["avspo.mode=opposite"],
    "avspo, mode ladder": (
        AVSPO + ["avspo.mode=ladder", "avspo.ladder.threshold=0", "avspo.ladder.threshold_min=0"]
    ),
    "avspo, mode prior": AVSPO + ["avspo.mode=prior", "avspo.prior.kappa=8"],
    "reinforce_pp": ["advantage=reinforce_pp"],
    "reinforce_pp_baseline": ["advantage=reinforce_pp_baseline"],
    "gpg": ["advantage=gpg"],
    "w_reinforce": ["advantage=w_reinforce"],
    "reinforce_rej": ["advantage=reinforce_rej"],
    "raft": ["advantage=raft"],
}
stale = []


def printed(program, *arguments, **options):
    """Returns the standard output of a program in the folder of `buttress`."""
    return subprocess.run([BUTTRESS.parent / program, *arguments],
                          capture_output=True,
                          text=True,
                          check=True,
                          **options,
                         ).stdout


def write_part(page, text, part=0):
    """Replaces the text between the markers of a page; `part` counts the pairs of markers."""
    path = DOCS / page
    pieces = path.read_text().split(BEGIN)
    pieces[part + 1] = text + END + pieces[part + 1].split(END, 1)[1]
    updated = BEGIN.join(pieces)
    if CHECK and path.read_text() != updated:
        stale.append(page)
    if not CHECK:
        path.write_text(updated)


def advantage_table():
    """Advantages of correct and wrong completions by the number of correct ones in the group."""
    groups = "\n".join(
        json.dumps({
            "id": k, "rewards": [1] * k + [0] * (SIZE - k), "lengths": [1] * k + [2] * (SIZE - k),
            "history": {"correct": 4000, "scored": 8000},
        }) for k in range(SIZE + 1))
    shown = (1, 4, 7)
    columns = [f"correct, {k} of {SIZE}" for k in (*shown, SIZE)]
    columns += [f"wrong, {k} of {SIZE}" for k in (0, *shown)]
    rows = ["| estimator | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, settings in ADVANTAGE_ROWS.items():
        overrides = [x for s in settings for x in ("--set", f"run.algorithm.{s}")]
        lines = printed("buttress", "advantages", "-", "--json", *overrides, input=groups)
        advantages = [json.loads(line)["advantages"] for line in lines.splitlines()[:-1]]
        cells = [advantages[k][0] for k in (*shown, SIZE)]
        cells += [advantages[k][-1] for k in (0, *shown)]
        rows.append(f"| {name} | " + " | ".join(f"{x + 0:.2f}" for x in cells) + " |")
    return "\n".join(rows) + "\n"


def verifier_table():
    rows = [line.split(maxsplit=1) for line in printed("buttress", "verify", "--list").splitlines()]
    return "| verifier | correct if |\n|---|---|\n" + "".join(
        f"| `{name}` | {meaning} |\n" for name, meaning in rows)


def settings_table():
    """One table per section, from lines such as "run.optim.lr  (1e-06)  peak learning rate"."""
    sections = {}
    for line in printed("coordinator", "--describe-config").splitlines():
        key, default, meaning = line.replace("|", "\\|").split("  ", 2)
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"| `{name}` | `{default[1:-1]}` | {meaning} |\n")
    return "".join(f"## `{section}`\n\n| setting | default | meaning |\n|---|---|---|\n" +
                   "".join(rows) + "\n" for section, rows in sections.items())


def metric_families(folder):
    """Returns a row per metric family that the sources of `folder` declare."""
    name, text = r'"((?:buttress|grpc|process)_\w+)"', r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    made = re.compile(rf"(Gauge|Counter|Histogram)s?\(\s*(?:\w+,\s*)?{name},\s*{text}")
    added = re.compile(rf"Add\(\s*MetricType::(Gauge|Counter),\s*{name},\s*{text}")
    collected = re.compile(rf"{name},\s*{text},\s*(?:\w+::)*(Gauge|Counter)\b")
    found = {}
    for source in sorted((DOCS.parent / folder).rglob("*.cc")):
        code = source.read_text()
        rows = [(n, k, t) for k, n, t in made.findall(code) + added.findall(code)]
        rows += [(n, k, t) for n, t, k in collected.findall(code)]
        for family, kind, literals in rows:
            found[family] = (kind.lower(), "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)))
    return "".join(f"| `{n}` | {kind} | {text} |\n" for n, (kind, text) in sorted(found.items()))


def metric_tables():
    text = ""
    for program, folder in (("coordinator", "coordinator"), ("worker", "rollout_worker"),
                            ("learner", "learner"), ("every program", "lib/base")):
        text += f"### {program.capitalize()}\n\n| metric | type | meaning |\n|---|---|---|\n"
        text += metric_families(folder) + "\n"
    return text


write_part("estimators.md", printed("buttress", "advantages", "--estimator", "list", "--markdown"))
write_part("estimators.md", advantage_table(), part=1)
write_part("losses.md", printed("buttress", "losses", "--markdown"))
write_part("verifiers.md", verifier_table())
write_part("configuration.md", settings_table())
write_part("metrics.md", printed("buttress", "metrics", "--markdown"))
write_part("metrics.md", metric_tables(), part=1)
if stale:
    sys.exit(f"out of date: {', '.join(stale)}; run docs/update.sh")
