"""Settings: every one that lib/config declares is read by a program.

A read is `.member` behind the name by which another section holds the setting's own, or in a file
that names the section's type, itself or in its header. Rules, which only check settings, do not
count, but a setting of WAIVES is there for them.
"""

import pathlib
import re

from sources import PROGRAMS, files, finish, read

WAIVES = {("SecurityConfig", "insecure")}

SECTION = re.compile(r"^struct (\w+) \{$(.*?)^\};$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  ([\w:<>, ]+) (\w+)(?: = [^;]*)?;", re.MULTILINE)
VISITED = re.compile(r'\bv\("\w+", (\w+),')
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


def main():
    declared = {}
    for path in files((".h",), ("lib/config",)):
        declared.update(sections(read(path)))
    paths = [path for path in files((".cc", ".h"), (*PROGRAMS, "lib"))
             if not path.startswith("lib/config/rules/")]
    texts = {}  # a header and its source are one text
    for path in paths:
        stem = str(pathlib.PurePath(path).with_suffix(""))
        texts[stem] = texts.get(stem, "") + re.sub(r"//.*", "", read(path))
    waived = " ".join(f"{section} {section}.{member}" for section, member in WAIVES)
    finish(unread(declared, [*texts.values(), waived]),
           f"{sum(map(len, declared.values()))} settings and sections, all of them read")


if __name__ == "__main__":
    main()
