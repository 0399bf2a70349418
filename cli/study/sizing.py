"""How many seeds a study needs, by the spread of its pairs alone.

Seeds may be added by what this says without a bias of the verdict: the spread around their mean
does not tell the effect or its sign (blinded re-estimate of the variance; Friede and Kieser,
Statistics in Medicine 32, 2013).
"""

import numpy as np

import inference
from verdict import ALPHA, FEWEST_PAIRS, family_of, pairs_of, promised_by


def seeds_for(promised, deviation, family, sides=2):
    """Pairs with which, each with a power of 80 %, an effect of that size is found in a family of
    so many comparisons, and no effect is told from it."""
    return max(inference.pairs_for(promised, deviation, ALPHA / family, sides),
               inference.pairs_for(promised, deviation, ALPHA, sides=1), FEWEST_PAIRS)


def size_of_kept(comparison, results, family):
    """(words, seeds) of the endpoint that a claim keeps besides what it gains."""
    if not comparison.keeps or comparison.only_keeps:
        return "", 0
    _, arm, against, _ = pairs_of(comparison, results, comparison.keeps)
    deviation = float(np.std(arm - against, ddof=1))
    return (f", keeping {comparison.keeps} with spread {deviation:.3g}",
            seeds_for(comparison.margin, deviation, family, sides=1))


def size_line(study, comparison, results):
    seeds, arm, against, _ = pairs_of(comparison, results)
    words = (f"{comparison.arm} against {comparison.against} on {comparison.task}, "
             f"{comparison.endpoint}: {len(seeds)} pairs")
    if len(seeds) < 3:
        return f"{words}; the spread needs 3 or more"
    scale = float(np.mean(against)) if comparison.relative else 1.0
    deviation = float(np.std(arm - against, ddof=1)) / scale
    family = family_of(study, comparison)
    besides, wanted = size_of_kept(comparison, results, family)
    wanted = max(wanted, seeds_for(promised_by(comparison), deviation, family,
                                   1 if comparison.only_keeps else 2))
    most = inference.MOST_PAIRS
    need = f"more than {most} seeds" if wanted > most else f"{wanted} seeds"
    return (f"{words}, spread {deviation:.3g}{besides}; {need} for {promised_by(comparison):g} "
            "with 80 % power")


def size_text(study, results):
    """A line for each comparison; nothing in it depends on the effects."""
    return "\n".join(size_line(study, comparison, results) for comparison in study.comparisons)
