"""Settings: every one that lib/config declares is read by a program, and some test gives it another
value than its default.

A read is `.member` behind the name by which another section holds the setting's own, or in a file
that names the section's type, itself or in its header. Rules, which only check settings, do not
count, but a setting of WAIVES is there for them. A test gives a value by `member = value` or
`member: value`, whatever the section: one that shares its name with a tested one may be missed.
UNTESTED has reasons.
"""

import pathlib
import re

from sources import PROGRAMS, files, finish, read

WAIVES = {("SecurityConfig", "insecure")}
UNTESTED = {
    ("ControlConfig", "steps_to_false_alarm"): "tests hand it over as ControlOptions::limit",
    ("LearnerConfig", "interface"): "needs several machines: tests/cluster",
    ("LearnerConfig", "share_gpu"): "needs a GPU with several ranks",
}

SECTION = re.compile(r"^struct (\w+) \{$(.*?)^\};$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  ([\w:<>, ]+) (\w+)(?: = [^;]*)?;", re.MULTILINE)
VISITED = re.compile(r'\bv\("\w+", (\w+),')
DEFAULT = re.compile(r"^  [\w:<>, ]+ (\w+) = ([^;]*);", re.MULTILINE)
GIVEN = re.compile(r"\b(\w+)[\"']?\s*(?:=(?!=)|:(?!:))\s*(?=[\"']?([\w.:{\[\"'/$-]+))")
READ = re.compile(r"(\w+)(?=(?:\(\))?(?:\.|->)(\w+)\b(?!\(|\s*=[^=]))")


def sections(text):
    """{type: {member: its type}} of what the Visit functions of a header name."""
    found = {}
    for name, body in SECTION.findall(text):
        types = {member: kind for kind, member in FIELD.findall(body)}
        visited = VISITED.findall(body)
        if visited:
            found[name] = {member: types.get(member, "") for member in visited}
    return found


def unread(declared, sources):
    """A problem for each setting of `declared`, as sections() returns it, that none of the texts
    reads."""
    holders = {}
    for members in declared.values():
        for member, kind in members.items():
            holders.setdefault(kind, set()).add(member)
    left = {(section, member) for section, members in declared.items()
            for member, kind in members.items() if kind not in declared}
    for text in sources:
        named = set(re.findall(r"\w+", text))
        read_behind = {}
        for holder, member in READ.findall(text):
            read_behind.setdefault(member, set()).add(holder)
        left = {(section, member) for section, member in left
                if member not in read_behind or (section not in named and not
                                                 read_behind[member] & holders.get(section, set()))}
    return [f"lib/config: {section}::{member} is a setting that no program reads"
            for section, member in sorted(left)]


def plain(value):
    """What C++, YAML and Python call the same: kGreso and greso, "x" and x."""
    return re.sub(r"^k(?=[A-Z])", "", value.split("::")[-1].strip("\"';,")).lower()


def untested(declared, defaults, tests):
    """A problem for each setting of `declared` that no text of `tests` gives another value than its
    one of `defaults`, {(type, member): text}."""
    given = {}
    for text in tests:
        for member, value in GIVEN.findall(text):
            given.setdefault(member, set()).add(plain(value))
    return [f"lib/config: no test gives {section}::{member} another value than its default"
            for section, members in sorted(declared.items()) for member, kind in members.items()
            if kind not in declared and (section, member) not in UNTESTED
            and not given.get(member, set()) - {plain(defaults.get((section, member), "")), ""}]


def main():
    declared, defaults = {}, {}
    for path in files((".h",), ("lib/config",)):
        text = read(path)
        declared.update(sections(text))
        for name, body in SECTION.findall(text):
            defaults.update({(name, member): value for member, value in DEFAULT.findall(body)})
    paths = [path for path in files((".cc", ".h"), (*PROGRAMS, "lib"))
             if not path.startswith("lib/config/rules/")]
    texts = {}  # a header and its source are one text
    for path in paths:
        stem = str(pathlib.PurePath(path).with_suffix(""))
        texts[stem] = texts.get(stem, "") + re.sub(r"//.*", "", read(path))
    waived = " ".join(f"{section} {section}.{member}" for section, member in WAIVES)
    tests = map(read, files((".cc", ".h", ".py", ".sh", ".yaml"), ("tests",)))
    finish([*unread(declared, [*texts.values(), waived]), *untested(declared, defaults, tests)],
           f"{sum(map(len, declared.values()))} settings and sections, all of them read and tested")


if __name__ == "__main__":
    main()
