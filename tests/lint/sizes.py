"""Sizes: median file at most 150 lines, nine in ten at most 400, none over 600 (tests apart)."""
from sources import ROOT, finish, sources

LONGEST, NINTH_DECILE, MEDIAN = 600, 400, 150

lines = sorted((len((ROOT / p).read_text().split("\n")), p) for p in sources() if not p.startswith("tests/"))
counts = [n for n, _ in lines]
median, p90 = counts[len(counts) // 2], counts[len(counts) * 9 // 10]
print(f"{len(counts)} files, median {median}, p90 {p90}, longest {counts[-1]} {lines[-1][1]}")
problems = [f"{p}: {n} lines; split it, {LONGEST} is the bound" for n, p in lines if n > LONGEST]
if median > MEDIAN:
    problems.append(f"the median file has {median} lines, {MEDIAN} is the bound")
if p90 > NINTH_DECILE:
    problems.append(f"one file in ten has more than {p90} lines, {NINTH_DECILE} is the bound")
finish(problems, "sizes hold")
