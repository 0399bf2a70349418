"""Writes paired_test.json: tests and intervals of paired differences, by scipy 1.16 or newer.

`binary`: McNemar's exact test by scipy.stats.binomtest. `shares`: scipy.stats.permutation_test over
all signs, and the percentile interval of scipy.stats.bootstrap where there are many prompts.
`pass_at_k`: 1 - C(n - c, k) / C(n, k) in exact fractions.
Run: python3 tests/golden/make_paired_test.py
"""
import fractions
import json
import math
import pathlib

import numpy as np
from scipy import stats

BINARY = [(0, 1), (1, 0), (3, 3), (2, 9), (10, 25), (40, 61), (0, 30), (500, 580), (1200, 1100)]
PASS_AT_K = [(256, 1, 1), (256, 1, 128), (256, 3, 64), (256, 128, 2), (256, 200, 57), (256, 7, 256),
             (1000, 2, 500)]

rng = np.random.default_rng(28)
shares = []
for prompts, samples, shift in [(8, 4, 0.1), (12, 8, 0.2), (12, 16, 0.0), (14, 3, 0.4),
                                (400, 8, 0.05), (400, 64, 0.0), (150, 4, 0.1)]:
    skill = rng.beta(0.6, 0.8, prompts)
    first = rng.binomial(samples, skill) / samples
    second = rng.binomial(samples, np.clip(skill + shift, 0, 1)) / samples
    row = {"first": first.tolist(), "second": second.tolist()}
    if prompts < 20:
        row["p"] = stats.permutation_test((second - first,), lambda d, axis: d.mean(axis=axis),
                                          permutation_type="samples", vectorized=True,
                                          n_resamples=np.inf).pvalue
    else:
        interval = stats.bootstrap((second - first,), np.mean, n_resamples=20000,
                                   method="percentile", rng=rng).confidence_interval
        row.update(low=interval.low, high=interval.high)
    shares.append(row)

pathlib.Path(__file__).with_name("paired_test.json").write_text(
    json.dumps({
        "binary": [{"first": b, "second": c, "p": stats.binomtest(b, b + c, 0.5).pvalue}
                   for b, c in BINARY],
        "shares": shares,
        "pass_at_k": [{"n": n, "c": c, "k": k, "pass": float(
            1 - fractions.Fraction(math.comb(n - c, k), math.comb(n, k)))}
                      for n, c, k in PASS_AT_K],
    }) + "\n")
