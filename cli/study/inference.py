"""Tests and intervals for the differences of pairs: one number for each seed.

scipy and numpy compute; every draw of random numbers is seeded, so that a report can be repeated.
"""

import numpy as np
from scipy import stats

EXACT_PAIRS = 16  # 65,536 assignments of signs; beyond that they are drawn
DRAWS = 20_000
RESAMPLES = 9_999
MOST_PAIRS = 1_000
DIFFERENCE = 1e-12  # below which sums of float64 are equal


def sign_flip(differences):
    """The two-sided p-value of the paired permutation test: the share of assignments of signs whose
    sum is as far from 0. Valid if, without an effect, a difference is as likely as its negative."""
    values = np.asarray(differences, float)
    count = len(values)
    if count == 0:
        return 1.0
    observed = abs(values.sum()) - DIFFERENCE
    if count <= EXACT_PAIRS:
        signs = 1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)
        return float(np.mean(np.abs(signs @ values) >= observed))
    draws = np.random.default_rng(1).integers(0, 2, (DRAWS, count), dtype=np.int8) * 2 - 1
    return float((np.sum(np.abs(draws @ values) >= observed) + 1) / (DRAWS + 1))


def holm(p_values):
    """Adjusted p-values in the order given, which hold the family-wise error rate (Holm, 1979)."""
    order = np.argsort(p_values, kind="stable")
    adjusted, largest = [0.0] * len(order), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def fixed_sequence(p_values):
    """Adjusted p-values where each test is made only if those before it rejected."""
    return [float(p) for p in np.maximum.accumulate(p_values)] if len(p_values) else []


def expanded(level, count):
    """The level at which a bootstrap interval of `count` values has the width of Student's
    (Hesterberg, The American Statistician 69, 2015, section 4.2): the plain one is too narrow."""
    quantile = stats.t.ppf((1 - level) / 2, count - 1) * np.sqrt(count / (count - 1))
    tail = stats.norm.cdf(quantile)
    return 1 - 2 * float(tail)


def interval(statistic, columns, level=0.95):
    """The BCa bootstrap interval (Efron, 1987) of statistic(*columns, axis=-1), columns of one
    number for each seed, resampled together. A single seed has no interval: (-inf, inf)."""
    columns = [np.asarray(column, float) for column in columns]
    count = len(columns[0])
    if count < 2:
        return -np.inf, np.inf
    if all(np.ptp(column) < DIFFERENCE for column in columns):
        value = float(statistic(*columns, axis=-1))
        return value, value
    found = stats.bootstrap(columns, statistic, paired=True, vectorized=True, batch=1000,
                            method="BCa", n_resamples=RESAMPLES,
                            confidence_level=expanded(level, count),
                            random_state=np.random.default_rng(1)).confidence_interval
    return float(found.low), float(found.high)


def not_worse(differences, margin):
    """The p-value of the one-sided t-test that the mean is above -margin."""
    values = np.asarray(differences, float)
    if len(values) < 2:
        return 1.0
    if np.ptp(values) < DIFFERENCE:
        return 0.0 if values.mean() > -margin else 1.0
    return float(stats.ttest_1samp(values, -margin, alternative="greater").pvalue)


def tost(differences, margin):
    """The p-value of two one-sided t-tests (Schuirmann, 1987) that the mean is within +-margin."""
    return max(not_worse(differences, margin), not_worse(-np.asarray(differences, float), margin))


def adjusted(differences, covariate, level=0.95):
    """(low, high) of the mean difference with the part of the spread taken out that a covariate
    explains, which both of a pair share: the intercept of a least-squares line at its mean."""
    values, shared = np.asarray(differences, float), np.asarray(covariate, float)
    count = len(values)
    if count < 4 or np.ptp(shared) < DIFFERENCE:
        return -np.inf, np.inf
    line = stats.linregress(shared - shared.mean(), values)
    residuals = values - line.intercept - line.slope * (shared - shared.mean())
    error = np.sqrt(residuals @ residuals / (count - 2) / count)
    width = stats.t.ppf((1 + level) / 2, count - 2) * error
    return float(line.intercept - width), float(line.intercept + width)


def power(effect, deviation, count, alpha, sides=2):
    """Of a t-test of `count` pairs whose differences have that mean and standard deviation."""
    if count < 2:
        return 0.0
    if deviation < DIFFERENCE:
        return 1.0
    critical = stats.t.ppf(1 - alpha / sides, count - 1)
    with np.errstate(all="ignore"):  # scipy leaves its range where the effect is very sure
        found = stats.nct.sf(critical, count - 1, effect / deviation * np.sqrt(count))
    return float(found) if np.isfinite(found) else 1.0


def pairs_for(effect, deviation, alpha, sides=2, wanted=0.8):
    """Pairs that find an effect with the wanted power; MOST_PAIRS + 1 if more than MOST_PAIRS."""
    if deviation < DIFFERENCE:
        return 2
    low, high = 2, MOST_PAIRS + 1
    while low < high:
        middle = (low + high) // 2
        if power(effect, deviation, middle, alpha, sides) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low
