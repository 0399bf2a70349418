"""Writes pass_at_k.json: maj@k and pass@k by enumeration of every draw.

Each case lists the answers of n completions by their number of votes. Every k of the n are drawn;
the most frequent answer wins, and ties are split evenly.
Run: python3 tests/golden/make_pass_at_k.py
"""
import fractions
import itertools
import json
import math
import pathlib

CASES = [  # (votes of correct answers, votes of wrong answers, completions without an answer)
    ([3], [2, 1], 0), ([1], [4], 0), ([4], [], 0), ([2], [2], 0), ([2], [2, 2], 1), ([1,
                                                                                      2], [3], 0),
    ([1], [1] * 7, 0), ([2], [1, 1, 1], 3), ([0], [3], 2), ([5], [3, 2], 1), ([2, 2], [1, 3], 2),
    ([1], [], 5),
]


def share(draw):
    votes = {}
    for kind in draw:
        if kind is not None:
            votes[kind] = votes.get(kind, 0) + 1
    leaders = [kind for kind, n in votes.items() if n == max(votes.values())]
    return fractions.Fraction(sum(
        right for _, right in leaders), len(leaders)) if leaders else fractions.Fraction(0)


rows = []
for correct, wrong, blank in CASES:
    pool = [(f"c{i}", True) for i, n in enumerate(correct) for _ in range(n)]
    pool += [(f"w{i}", False) for i, n in enumerate(wrong) for _ in range(n)]
    pool += [None] * blank
    for k in range(1, len(pool) + 1):
        draws = list(itertools.combinations(pool, k))
        rows.append({
            "correct": correct, "wrong": wrong, "blank": blank, "k": k,
            "maj": float(sum(map(share, draws)) / len(draws)), "pass": float(
                fractions.Fraction(sum(any(x and x[1] for x in d) for d in draws),
                                   math.comb(len(pool), k)))
        })
pathlib.Path(__file__).with_name("pass_at_k.json").write_text("[\n" + ",\n".join(
    json.dumps(r) for r in rows) + "\n]\n")
