"""Claims to keep an endpoint, alone or besides a gain, on synthetic studies whose truth is known.

keeps_test.py [--long]   --long: tables of errors and power from more studies
"""

import sys
import unittest

import numpy as np
import synthetic
from comparison import Comparison, read_comparison
from failure import Failure
from study_file import Task

import evidence
import inference
import sizing
import verdict

MARGIN = 0.03
SAVES = {"endpoint": "tokens", "lower": True, "relative": True, "keeps": "accuracy"}
KEEPS = {"endpoint": "accuracy", "keeps": "accuracy"}


def study_with(keys):
    return synthetic.study_of([Comparison(("t",), "arm", "control", "claim", margin=MARGIN,
                                          **keys)], primary="acr")


def results_with(rng, seeds, effect, saved, deviation=0.025):
    """The arm has that effect on accuracy, and generates a share `saved` of tokens less."""
    results = synthetic.results_of(rng, seeds, {"arm": effect}, deviation=deviation)
    for trial, result in results.items():
        share = 1 - saved if trial.arm == "arm" else 1
        result["endpoints"]["tokens"] = 1000 * share * (1 + 0.05 * rng.normal())
    return results


def found(rng, keys, effect, saved=0.0, seeds=20, **shape):
    results = results_with(rng, seeds, effect, saved, **shape)
    return verdict.findings_of(study_with(keys), results)[0]


def rates(studies, keys, effect, saved=0.0):
    """{verdict: share} of studies of 20 seeds."""
    rng = np.random.default_rng(studies)
    rows = [found(rng, keys, effect, saved).verdict for _ in range(studies)]
    return {name: rows.count(name) / studies for name in sorted({*rows})}


def setUpModule():
    inference.RESAMPLES, inference.DRAWS = 399, 2000


class TruthTest(unittest.TestCase):
    """Rates over few studies: bounds of errors are three standard errors above 5 %."""

    ERRORS = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)

    def errs(self, keys, effect, saved=0.0):
        self.assertLess(rates(80, keys, effect, saved).get("reproduced", 0), self.ERRORS)

    def test_what_is_lost_by_the_margin_is_rarely_called_kept(self):
        self.errs(KEEPS, -MARGIN)
        self.errs(SAVES, -MARGIN, 0.2)  # however many tokens are saved

    def test_what_saves_nothing_is_rarely_called_saving(self):
        self.errs(SAVES, 0.0)
        self.errs(SAVES, 0.1)  # however much accuracy is gained

    def test_what_holds_is_found(self):
        self.assertGreater(rates(40, KEEPS, 0.0).get("reproduced", 0), 0.9)
        self.assertGreater(rates(40, SAVES, 0.0, 0.1).get("reproduced", 0), 0.9)

    def test_what_does_not_hold_is_refuted(self):
        self.assertGreater(rates(40, KEEPS, -0.06).get("refuted", 0), 0.9)
        self.assertGreater(rates(40, SAVES, -0.06, 0.1).get("refuted", 0), 0.9)
        self.assertGreater(rates(40, SAVES, 0.0, -0.1).get("refuted", 0), 0.9)


class KeepsTest(unittest.TestCase):
    def found(self, *arguments, **shape):
        return found(np.random.default_rng(5), *arguments, **shape)

    def test_the_larger_p_value_counts(self):
        row = self.found(SAVES, -0.015, 0.2)
        self.assertEqual(row.p, row.kept.p)
        self.assertGreater(row.kept.p, inference.sign_flip(row.differences))
        self.assertTrue(row.kept.low < row.kept.effect < row.kept.upper < row.kept.high)
        self.assertAlmostEqual(row.effect, 0.2, delta=0.03)

    def test_reasons_name_what_is_lost(self):
        self.assertEqual(self.found(SAVES, -0.06, 0.1).reason,
                         "accuracy is lower by more than 3 points")
        self.assertEqual(self.found(KEEPS, -0.06).reason, "lower by more than 3 points")
        self.assertEqual(self.found(KEEPS, 0.0).reason, "not lower by 3 points")

    def test_the_table_has_both_effects(self):
        text = evidence.verdict_text(self.found(SAVES, 0.0, 0.1))
        self.assertRegex(text, r"^\*\*reproduced\*\*; accuracy [+-][\d.]+ points "
                         r"\(-[\d.]+ points to \+[\d.]+ points\)$")
        self.assertEqual(evidence.verdict_text(self.found(KEEPS, 0.0)),
                         "**reproduced**: not lower by 3 points")
        self.assertIn("tokens and accuracy)", evidence.what(Comparison(
            ("t",), "arm", "control", "saves", **SAVES)))

    def test_a_claim_to_keep_is_checked(self):
        row = {"task": "t", "arm": "a", "against": "b", "claim": "c"}
        for more, error in (({"keeps": "acr"}, "keeps: 'acr' is none of accuracy, "),
                            ({"keeps": "accuracy", "at_least": 0.1}, "leave out at_least")):
            with self.assertRaisesRegex(Failure, error):
                read_comparison("s.yaml", 1, {**row, **more}, {"t": Task("t", [], {}, {})}, "ab")

    def test_undecided_asks_for_the_seeds_of_what_is_kept(self):
        row = self.found(SAVES, -0.015, 0.2, deviation=0.06)
        self.assertEqual(row.verdict, "undecided")
        self.assertEqual(row.more + 20, inference.pairs_for(MARGIN, row.kept.deviation, 0.05, 1))
        alone = self.found(KEEPS, -0.015, deviation=0.06)
        self.assertEqual((alone.verdict, alone.more), ("undecided", row.more))

    def test_the_size_is_that_of_the_wider_spread(self):
        results = results_with(np.random.default_rng(3), 12, 0.0, 0.1, deviation=0.2)
        lines = [sizing.size_text(study_with(keys), results) for keys in (SAVES, KEEPS)]
        self.assertIn("keeping accuracy", lines[0])
        self.assertEqual(lines[0].split("; ")[-1], lines[1].split("; ")[-1])


def print_tables():
    print("verdicts of 20 seeds on 'saves tokens and keeps accuracy' (deviation 2.5 points, margin "
          "3) and on 'keeps accuracy', by the truth; 1,000 studies")
    for effect in (0.0, -0.01, -MARGIN, -0.06):
        print(f"  {100 * effect:+.0f} points, keeps: {rates(1000, KEEPS, effect)}", flush=True)
        for saved in (0.0, 0.05, 0.1):
            print(f"  {100 * effect:+.0f} points, {100 * saved:.0f} % saved: "
                  f"{rates(1000, SAVES, effect, saved)}", flush=True)


if __name__ == "__main__":
    if "--long" in sys.argv:
        setUpModule()
        print_tables()
    else:
        unittest.main()
