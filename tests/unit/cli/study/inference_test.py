"""The statistics of `buttress study` on synthetic studies whose truth is known.

inference_test.py [--long]   --long: tables of coverage, errors and verdicts from more studies
"""

import sys
import unittest

import numpy as np
import synthetic
from scipy import stats
from comparison import Comparison

import inference
import sizing
import verdict


def comparison(arm="arm", **keys):
    return Comparison(("t",), arm, "control", "claim", **keys)


def findings(rng, seeds, effects, keys=None, **shape):
    keys = keys or {}
    study = synthetic.study_of([comparison(arm, **keys) for arm in effects])
    return verdict.findings_of(study, synthetic.results_of(rng, seeds, effects, **shape))


def coverage(studies, seeds, shape, **keys):
    """The shares of 95 % intervals that hold the truth, and of one-sided bounds above it."""
    rng = np.random.default_rng(seeds)
    truth = 0.05 / 0.5 if keys.get("relative") else 0.05
    found = [findings(rng, seeds, {"arm": 0.05}, keys, shape=shape)[0] for _ in range(studies)]
    return (np.mean([f.low <= truth <= f.high for f in found]),
            np.mean([f.upper >= truth for f in found]))


def null_errors(studies, seeds, arms, shape):
    """The share of studies without any effect in which a comparison is significant."""
    rng = np.random.default_rng(seeds)
    rejected = 0
    for _ in range(studies):
        rows = findings(rng, seeds, {f"arm{i}": 0.0 for i in range(arms)}, shape=shape)
        rejected += any(row.adjusted_p <= verdict.ALPHA for row in rows)
    return rejected / studies


def verdicts(studies, seeds, effect, at_least):
    """{verdict: share} of studies with that true effect."""
    rng = np.random.default_rng(seeds)
    rows = [findings(rng, seeds, {"arm": effect}, {"at_least": at_least})[0].verdict
            for _ in range(studies)]
    return {name: rows.count(name) / studies for name in ("reproduced", "refuted", "undecided")}


def setUpModule():
    inference.RESAMPLES, inference.DRAWS = 399, 2000  # enough for these tests, and fast


class TestsTest(unittest.TestCase):
    def test_sign_flip_counts_the_assignments(self):
        self.assertEqual(inference.sign_flip([1, 2, 3]), 2 / 8)  # all signs alike
        self.assertEqual(inference.sign_flip([1, 1, -1]), 1.0)
        self.assertEqual(inference.sign_flip([0.0, 0.0]), 1.0)
        self.assertEqual(inference.sign_flip([]), 1.0)
        self.assertLess(inference.sign_flip(np.ones(40)), 1e-3)

    def test_drawn_signs_agree_with_the_t_test(self):
        values = np.random.default_rng(3).normal(0.2, 1, 60)
        self.assertAlmostEqual(inference.sign_flip(values), stats.ttest_1samp(values, 0).pvalue,
                               delta=0.02)

    def test_holm_and_fixed_sequence(self):
        np.testing.assert_allclose(inference.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
        np.testing.assert_allclose(inference.holm([0.6, 0.7]), [1.0, 1.0])
        self.assertEqual(inference.fixed_sequence([0.01, 0.2, 0.001]), [0.01, 0.2, 0.2])
        self.assertEqual(inference.fixed_sequence([]), [])

    def test_seeds_for_a_power(self):
        self.assertEqual(inference.pairs_for(0.05, 0.095, 0.05), 31)
        self.assertEqual(inference.pairs_for(0.05, 0.095, 0.05 / 3), 41)
        self.assertEqual(inference.pairs_for(0.04, 0.095, 0.05, sides=1), 37)
        self.assertEqual(inference.pairs_for(1e-6, 1, 0.05), inference.MOST_PAIRS + 1)
        self.assertEqual(inference.pairs_for(1, 0, 0.05), 2)

    def test_equivalence(self):
        values = np.random.default_rng(4).normal(0, 0.02, 30)
        self.assertLess(inference.tost(values, 0.03), 0.001)
        self.assertGreater(inference.tost(values + 0.03, 0.03), 0.2)
        self.assertEqual(inference.tost([0.1], 0.03), 1.0)

    def test_a_shared_covariate_narrows_the_interval(self):
        rng = np.random.default_rng(5)
        cold = rng.normal(size=40)
        values = 0.5 + 2 * cold + rng.normal(size=40) * 0.1
        low, high = inference.adjusted(values, cold)
        self.assertLess(high - low, 0.1)
        self.assertTrue(low < values.mean() < high)
        self.assertEqual(inference.adjusted(values[:3], cold[:3]), (-np.inf, np.inf))

    def test_intervals_of_degenerate_data(self):
        self.assertEqual(inference.interval(np.mean, [[2.0, 2.0, 2.0]]), (2.0, 2.0))
        self.assertEqual(inference.interval(np.mean, [[2.0]]), (-np.inf, np.inf))


class TruthTest(unittest.TestCase):
    """Rates over few studies: the bounds are three standard errors wide."""

    def test_intervals_cover_the_truth(self):
        for shape, keys in (("normal", {}), ("skewed", {}), ("normal", {"relative": True})):
            with self.subTest(shape=shape, **keys):
                both, upper = coverage(100, 20, shape, **keys)
                self.assertGreater(both, 0.88)
                self.assertGreater(upper, 0.87)

    def test_without_an_effect_a_family_errs_as_rarely_as_it_says(self):
        self.assertLess(null_errors(80, 20, 3, "normal"), 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80))

    def test_verdicts_of_known_effects(self):
        none, large = verdicts(60, 40, 0.0, 0.04), verdicts(60, 40, 0.06, 0.04)
        self.assertLess(none["reproduced"], 0.13)
        self.assertGreater(none["refuted"], 0.6)
        self.assertGreater(large["reproduced"], 0.85)
        self.assertLess(large["refuted"], 0.1)
        few = verdicts(5, 5, 0.5, 0.04)
        self.assertEqual(few["undecided"], 1.0)


class VerdictTest(unittest.TestCase):
    def found(self, effect, keys=None, seeds=40, deviation=0.02, draw=7):
        return findings(np.random.default_rng(draw), seeds, {"arm": effect}, keys,
                        deviation=deviation)[0]

    def test_reasons(self):
        self.assertEqual(self.found(0.06, {"at_least": 0.04}).verdict, "reproduced")
        small = self.found(0.02, {"at_least": 0.04})
        self.assertEqual((small.verdict, small.reason),
                         ("refuted", "there is an effect, but a smaller one"))
        self.assertEqual(self.found(0.0, {"at_least": 0.04}).reason, "the effect is smaller")
        self.assertEqual(self.found(-0.05, {"at_least": 0.04}).reason,
                         "the effect is the opposite one")
        same = self.found(0.0)
        self.assertEqual((same.verdict, same.reason), ("no difference", "within ±3 points"))

    def test_lower_is_better_turns_the_sign(self):
        self.assertEqual(self.found(-0.06, {"lower": True}).verdict, "reproduced")
        share = self.found(-0.06, {"lower": True, "relative": True})
        self.assertAlmostEqual(share.effect, 0.12, delta=0.03)

    def test_undecided_says_how_many_more(self):
        found = self.found(0.02, {"at_least": 0.04}, seeds=12, deviation=0.095, draw=8)
        self.assertEqual(found.verdict, "undecided")
        self.assertGreater(found.more, 10)

    def test_equal_tokens_compare_at_the_smaller_budget(self):
        results = synthetic.results_of(np.random.default_rng(1), 12, {"arm": 0.0}, deviation=0)
        for trial, result in results.items():
            rate = 2 if trial.arm == "arm" else 1  # the arm generates twice the tokens
            result["curve"] = {"tokens": [100 * s * rate for s in range(1, 11)],
                               "accuracy": [0.1 * s for s in range(1, 11)]}
            result["endpoints"]["tokens"] = 1000 * rate
        study = synthetic.study_of([comparison(endpoint="accuracy_at_equal_tokens")])
        found = verdict.findings_of(study, results)[0]
        self.assertAlmostEqual(found.effect, -0.875 / 2)

    def test_a_seed_without_its_pair_does_not_count(self):
        results = synthetic.results_of(np.random.default_rng(1), 12, {"arm": 0.0})
        results.pop(next(t for t in results if (t.arm, t.seed) == ("arm", 4)))
        study = synthetic.study_of([comparison()])
        self.assertEqual(len(verdict.findings_of(study, results)[0].seeds), 11)
        self.assertEqual(verdict.findings_of(study, {}), [])

    def test_a_comparison_that_is_missing_stays_in_the_family(self):
        results = synthetic.results_of(np.random.default_rng(1), 12, {"arm": 0.05})
        one = synthetic.study_of([comparison()])
        two = synthetic.study_of([comparison(), comparison("absent")])
        p = verdict.findings_of(one, results)[0].adjusted_p
        self.assertAlmostEqual(verdict.findings_of(two, results)[0].adjusted_p, min(1, 2 * p))


class TasksTest(unittest.TestCase):
    """Twenty-four seeds with every arm on every task, effects of 2, 5 and 8 points."""

    def setUp(self):
        rng = np.random.default_rng(11)
        sides = np.array([-0.5, 0.5])
        self.values = (rng.normal(0, 0.05, (24, 1, 1)) + rng.normal(0, 0.04, (24, 1, 1)) * sides +
                       np.array([[[0.2], [0.5], [0.7]]]) +
                       np.array([[[0.02], [0.05], [0.08]]]) * sides +
                       rng.normal(0, 0.03, (24, 3, 2)))
        self.results = {
            synthetic.Trial(task, arm, seed + 1): {"endpoints": {
                "accuracy": self.values[seed, i, j], "cold": 0.0}}
            for seed in range(24) for i, task in enumerate("abc")
            for j, arm in enumerate(("control", "arm"))}

    def found(self, tasks):
        study = synthetic.study_of([Comparison(tasks, "arm", "control", "claim")])
        return verdict.findings_of(study, self.results)[0]

    def test_several_tasks_are_judged_as_by_the_mixed_model(self):
        found = self.found(("a", "b", "c"))
        # statsmodels 0.15, of the same numbers as a table with arms -0.5 and 0.5, by REML:
        # mixedlm("y ~ arm * C(task, Sum)", table, groups="seed", re_formula="~arm")
        self.assertAlmostEqual(found.effect, 0.0383669, delta=1e-7)
        self.assertAlmostEqual(found.deviation / np.sqrt(24), 0.0075794, delta=1e-7)
        self.assertEqual((len(found.seeds), found.comparison.task), (24, "a, b, c"))

    def test_a_seed_that_lacks_a_task_does_not_count(self):
        self.results.pop(synthetic.Trial("b", "arm", 3))
        self.assertEqual(len(self.found(("a", "b")).seeds), 23)
        self.assertEqual(len(self.found(("a", "c")).seeds), 24)


class SizeTest(unittest.TestCase):
    def lines(self, shift=0.0, seeds=12, **keys):
        results = synthetic.results_of(np.random.default_rng(2), seeds, {"arm": 0.05})
        for trial, result in results.items():
            if trial.arm == "arm":
                result["endpoints"]["accuracy"] += shift
        study = synthetic.study_of([comparison(**keys), comparison(at_least=0.05)])
        return sizing.size_text(study, results).splitlines()

    def test_nothing_that_is_printed_tells_the_effect(self):
        for keys in ({"at_least": 0.04}, {"relative": True, "at_least": 0.2}, {"lower": True}):
            with self.subTest(**keys):
                expected = self.lines(**keys)
                for shift in (-0.3, -0.05, 0.4):
                    self.assertEqual(self.lines(shift, **keys), expected)

    def test_the_seeds_are_those_of_the_power(self):
        deviation = float(self.lines()[1].split("spread ")[1].split(";")[0])
        wanted = inference.pairs_for(0.05, deviation, 0.05 / 2)
        self.assertTrue(self.lines()[1].startswith("arm against control on t, accuracy: 12 pairs"))
        self.assertIn(f"; {wanted} seeds for 0.05 with 80 % power", self.lines()[1])
        self.assertIn("more than 1000 seeds for 1e-06", self.lines(margin=1e-6)[0])
        self.assertIn("2 pairs; the spread needs 3", self.lines(seeds=2)[0])


def print_tables():
    print("coverage of 95 % intervals, and of one-sided upper bounds of 95 %; 1,000 studies")
    for keys in ({}, {"relative": True}):
        for shape in synthetic.SHAPES:
            for seeds in (10, 20, 40):
                both, upper = coverage(1000, seeds, shape, **keys)
                print(f"  {shape:7} {'share' if keys else 'difference':10} {seeds} seeds: "
                      f"{both:.3f} {upper:.3f}", flush=True)
    print("studies without any effect in which one of 4 comparisons is significant at 5 %")
    for shape in synthetic.SHAPES:
        for seeds in (10, 20, 40):
            errors = null_errors(1000, seeds, 4, shape)
            print(f"  {shape:7} {seeds} seeds: {errors:.3f}", flush=True)
    print("verdicts on 'at least 4 points' by the true effect, 40 seeds, deviation 9.5 points")
    for effect in (-0.04, 0.0, 0.02, 0.04, 0.06, 0.08):
        print(f"  {100 * effect:+.0f} points: {verdicts(500, 40, effect, 0.04)}", flush=True)


if __name__ == "__main__":
    if "--long" in sys.argv:
        print_tables()
    else:
        unittest.main()
