"""Judges math_pairs.txt with Math-Verify (pip install math-verify) and prints, for
docs/math_verifier.md, where it differs from the file:

    python3 tests/golden/make_math_verify.py

A pair is `\\boxed{A}` against `\\boxed{B}` with Math-Verify's defaults, both ways; it differs if a
verdict either way is not the file's lenient one. """

import collections
import pathlib
import re

from math_verify import parse, verify

PAIRS = pathlib.Path(__file__).with_name("math_pairs.txt")


def pairs():
    form = ""
    for line in PAIRS.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        found = re.match(r"(.*?)  ([=~!][=>])  (.*)$", line)
        if found:
            same = found[2] != "!="
            yield form, found[1], [same, same and found[2] != "~>"], found[3]
        else:
            form = line.strip("[]")


def same(given, gold):
    return verify(parse(f"\\boxed{{{gold}}}", parsing_timeout=None),
                  parse(f"\\boxed{{{given}}}", parsing_timeout=None),
                  timeout_seconds=None,
                 )


counts = collections.Counter()
for form, a, expected, b in pairs():
    verdicts = [same(a, b), same(b, a)]
    counts[form, "pairs"] += 1
    if verdicts == expected:
        continue
    kind = ("one way" if verdicts[0] != verdicts[1] else
            "both ways" if expected[0] != expected[1] else
            "rejected" if expected[0] else "accepted")
    counts[form, kind] += 1
    print(f"{form}\t{kind}\t{a}\t{'=' if expected[0] else '!='}\t{b}")
print()
for form in dict.fromkeys(f for f, _ in counts):
    print(f"{form}: " +
          ", ".join(f"{counts[form, k]} {k}"
                    for k in ("pairs", "rejected", "accepted", "one way", "both ways")))
