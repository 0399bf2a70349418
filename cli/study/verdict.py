"""What the results of a study say about each of its claims, by rules that are fixed beforehand.

reproduced     the adjusted sign-flip test rejects "no effect" at 5 %; the 95 % interval is above 0
refuted        the one-sided 95 % upper bound is below what the claim promises
no difference  nothing is promised, and the effect is within the margin of equivalence
undecided      neither; with the seeds that it would take

A claim to keep an endpoint is that it is not lower by `margin`: reproduced where the lower side of
TOST rejects that, refuted where the upper bound is below -margin. A claim to gain in one endpoint
and to keep another holds where both do: its p-value is the larger one (intersection-union test).

Comparisons of the primary endpoint are one family (Holm). The others are tested in the order of the
file, each only if those before it rejected.
"""

import dataclasses

import numpy as np

import inference
from comparison import Comparison, amount

ALPHA = 0.05
FEWEST_PAIRS = 10  # fewer decide nothing: intervals of so few are too narrow


@dataclasses.dataclass(frozen=True)
class Kept:
    """The endpoint that a claim keeps besides what it gains."""

    effect: float
    low: float  # of the 95 % interval
    high: float
    upper: float  # one-sided, 95 %
    p: float  # that it is lower by the margin
    deviation: float


@dataclasses.dataclass(frozen=True)
class Finding:
    comparison: Comparison
    seeds: list
    differences: np.ndarray  # of the endpoint, an improvement above 0
    effect: float
    low: float  # of the 95 % interval
    high: float
    upper: float  # one-sided, 95 %
    kept: object  # Kept, or None
    p: float  # sign-flip; of a claim to keep, of the lower side of TOST; the larger of two
    adjusted_p: float
    equivalence_p: float  # TOST
    covariate: tuple  # interval adjusted for cold accuracy
    deviation: float  # of the pairs, in the unit of the effect
    power: float  # of these pairs to find an effect of the size that is claimed
    verdict: str
    more: int  # seeds that are wanted besides these, where it is undecided
    reason: str


def mean_difference(arm, against, axis=-1):
    return np.mean(arm, axis=axis) - np.mean(against, axis=axis)


def mean_share(arm, against, axis=-1):
    return np.mean(arm, axis=axis) / np.mean(against, axis=axis) - 1


def accuracy_at(result, tokens):
    """The mean accuracy over the last quarter of a number of generated tokens, by straight lines
    between the start model and the evaluations."""
    known = [0, *result["curve"]["tokens"]]
    accuracy = [result["endpoints"]["cold"], *result["curve"]["accuracy"]]
    return float(np.interp(np.linspace(0.75 * tokens, tokens, 65), known, accuracy).mean())


def results_of(results, task, arm):
    """Results of stage two of an arm, by seed."""
    return {t.seed: r for t, r in results.items() if (t.task, t.arm, t.value) == (task, arm, None)}


def values_of(endpoint, pair):
    """The endpoint of both results of a pair."""
    if endpoint != "accuracy_at_equal_tokens":
        return [result["endpoints"][endpoint] for result in pair]
    tokens = min(result["endpoints"]["tokens"] for result in pair)
    return [accuracy_at(result, tokens) for result in pair]


def pairs_of(comparison, results, endpoint=None):
    """(seeds, arm, against, cold) of the seeds that both arms have on every task: the mean over
    tasks. Its paired test is that of the mixed model arm x task with random effects of the seed
    and of seed x arm, as each seed has each arm on each task once (docs/studies.md)."""
    sides = [[results_of(results, task, arm) for arm in (comparison.arm, comparison.against)]
             for task in comparison.tasks]
    seeds = sorted(set.intersection(*({*side} for pair in sides for side in pair)))
    values = np.array([[[*values_of(endpoint or comparison.endpoint, (one[seed], other[seed])),
                         one[seed]["endpoints"]["cold"]] for one, other in sides]
                       for seed in seeds], float).reshape(len(seeds), len(sides), 3)
    return seeds, *values.mean(axis=1).T


def promised_by(comparison):
    """The effect that a study has to be able to find."""
    return comparison.at_least or comparison.margin


def family_of(study, comparison):
    """The number of comparisons that Holm's method adjusts together with this one."""
    if comparison.endpoint != study.primary:
        return 1
    return sum(c.endpoint == study.primary for c in study.comparisons)


def seeds_to_exclude(count, row, promised):
    """Seeds whose interval is narrow enough to exclude one of "nothing" and "as promised"."""
    middle, width = (row["low"] + row["high"]) / 2, (row["high"] - row["low"]) / 2
    distance = max(abs(middle), abs(promised - middle))
    return int(np.ceil(count * (width / distance) ** 2))


def seeds_wanted(row, deviation, family):
    """Seeds with which, each with a power of 80 %, an effect of the size of the claim would be
    reproduced in a family of so many comparisons, and no effect refuted; and with which what is
    kept would be found to be. Where there are as many already: those whose interval is narrow
    enough to exclude one of the two."""
    comparison, count, kept = row["comparison"], len(row["seeds"]), row["kept"]
    promised = promised_by(comparison)
    sides = 1 if comparison.only_keeps else 2
    wanted = max(inference.pairs_for(promised, deviation, ALPHA / family, sides),
                 inference.pairs_for(promised, deviation, ALPHA, sides=1))
    if kept and kept.p > ALPHA:
        wanted = max(wanted, inference.pairs_for(comparison.margin, kept.deviation,
                                                 ALPHA / family, sides=1))
    if wanted <= count:
        towards = -promised if comparison.only_keeps else promised
        wanted = max(count + 1, seeds_to_exclude(count, row, towards))
    return wanted


def decide(row, adjusted_p):
    """(verdict, reason)."""
    comparison, kept = row["comparison"], row["kept"]
    if comparison.only_keeps:
        return decide_kept(comparison, row["upper"], adjusted_p)
    found = adjusted_p <= ALPHA and row["low"] > 0
    if row["upper"] < comparison.at_least:
        return "refuted", too_small(row, found)
    if kept and kept.upper < -comparison.margin:
        return "refuted", (f"{comparison.keeps} is lower by more than "
                           f"{amount(comparison.margin, comparison.keeps)}")
    if found:
        return "reproduced", ""
    if not comparison.at_least and row["equivalence_p"] <= ALPHA:
        within = amount(comparison.margin, comparison.endpoint, comparison.relative)
        return "no difference", f"within ±{within}"
    if adjusted_p <= ALPHA and row["effect"] < 0:
        return "refuted", "the effect is the opposite one"
    return "undecided", ""


def decide_kept(comparison, upper, adjusted_p):
    margin = amount(comparison.margin, comparison.endpoint)
    if upper < -comparison.margin:
        return "refuted", f"lower by more than {margin}"
    if adjusted_p <= ALPHA:
        return "reproduced", f"not lower by {margin}"
    return "undecided", ""


def too_small(row, found):
    if found:
        return "there is an effect, but a smaller one"
    return "the effect is the opposite one" if row["high"] < 0 else "the effect is smaller"


def measure_kept(comparison, results):
    """None where the claim keeps nothing besides."""
    if not comparison.keeps or comparison.only_keeps:
        return None
    _, arm, against, _ = pairs_of(comparison, results, comparison.keeps)
    low, high = inference.interval(mean_difference, (arm, against))
    _, upper = inference.interval(mean_difference, (arm, against), 1 - 2 * ALPHA)
    differences = arm - against
    deviation = float(np.std(differences, ddof=1)) if len(differences) > 1 else np.inf
    return Kept(float(np.mean(differences)), low, high, upper,
                inference.not_worse(differences, comparison.margin), deviation)


def p_of(comparison, differences, kept):
    if comparison.only_keeps:
        return inference.not_worse(differences, comparison.margin)
    p = inference.sign_flip(differences)
    return max(p, kept.p) if kept else p


def measure(comparison, results):
    """The numbers of a comparison, before p-values are adjusted; None without a pair."""
    seeds, arm, against, cold = pairs_of(comparison, results)
    if not seeds:
        return None
    sign = -1 if comparison.lower else 1
    statistic = mean_share if comparison.relative else mean_difference
    differences = sign * (arm - against)
    scale = float(np.mean(against)) if comparison.relative else 1.0

    def signed(one, other, axis=-1):
        return sign * statistic(one, other, axis)

    low, high = inference.interval(signed, (arm, against))
    _, upper = inference.interval(signed, (arm, against), 1 - 2 * ALPHA)
    kept = measure_kept(comparison, results)
    return {"comparison": comparison, "seeds": seeds, "differences": differences, "scale": scale,
            "effect": float(signed(arm, against)), "low": low, "high": high, "upper": upper,
            "kept": kept, "p": p_of(comparison, differences, kept),
            "equivalence_p": inference.tost(differences / scale, comparison.margin),
            "covariate": inference.adjusted(differences / scale, cold)}


def conclude(row, adjusted_p, family):
    count, scale = len(row["seeds"]), row.pop("scale")
    deviation = float(np.std(row["differences"], ddof=1)) / scale if count > 1 else np.inf
    verdict, reason, more = "undecided", f"fewer than {FEWEST_PAIRS} seeds", 0
    if count >= FEWEST_PAIRS:
        verdict, reason = decide(row, adjusted_p)
    if verdict == "undecided":
        wanted = seeds_wanted(row, deviation, family) if count > 1 else FEWEST_PAIRS
        more = max(FEWEST_PAIRS, wanted) - count
    power = inference.power(promised_by(row["comparison"]), deviation, count, ALPHA / family,
                            1 if row["comparison"].only_keeps else 2)
    return Finding(**row, adjusted_p=adjusted_p, verdict=verdict, more=more, reason=reason,
                   deviation=deviation, power=power)


def findings_of(study, results):
    """A Finding for each comparison with a pair, in the order of the file. `results` are those of
    stage two, by Trial."""
    rows = [row for row in (measure(c, results) for c in study.comparisons) if row]
    primary = [row for row in rows if row["comparison"].endpoint == study.primary]
    others = [row for row in rows if row["comparison"].endpoint != study.primary]
    family = max((family_of(study, row["comparison"]) for row in primary), default=0)
    lacking = [1.0] * (family - len(primary))  # comparisons without a pair are in the family too
    p_values = [*inference.holm([row["p"] for row in primary] + lacking)[:len(primary)],
                *inference.fixed_sequence([row["p"] for row in others])]
    adjusted = {id(row): p for row, p in zip([*primary, *others], p_values)}
    return [conclude(row, adjusted[id(row)], family_of(study, row["comparison"])) for row in rows]
