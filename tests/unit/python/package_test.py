"""The Python package `buttress`, against the golden vectors of the estimators."""
import json
import pathlib
import unittest

import buttress
from buttress import _library

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden/advantages.json"
SIMPLE = {"set", "key", "groups", "advantages", "collapse", "acr", "weights", "samples"}


def nested(assignments):
    """(estimator, settings) of ["run.algorithm.advantage=grpo", "run.algorithm.avspo.mode=..."]."""
    settings = {}
    for assignment in assignments:
        path, _, value = assignment.partition("=")
        *folders, name = path.split(".")[2:]
        inner = settings
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[name] = value
    return settings.pop("advantage"), settings


class Advantages(unittest.TestCase):

    def test_gives_the_golden_vectors(self):
        seen = set()
        for row in json.loads(GOLDEN.read_text()):
            estimator, settings = nested(row["set"])
            if not set(row) <= SIMPLE or settings.get("avspo", {}).get("mode") == "noise":
                continue  # needs more than rewards, or draws with a key of its own
            seen.add(estimator)
            with self.subTest(row["set"]):
                result = buttress.advantages(row["groups"], estimator, **settings)
                for group, expected in zip(result, row["advantages"], strict=True):
                    for got, wanted in zip(group, expected, strict=True):
                        self.assertAlmostEqual(got, wanted, delta=1e-12)
        self.assertLessEqual({"grpo", "rloo", "avspo"}, seen)

    def test_names_the_estimators(self):
        names = _library.call("estimators")
        self.assertLess({"grpo", "avspo"}, set(names))
        with self.assertRaisesRegex(ValueError, "choose one of.*estimators"):
            _library.call("estimator")

    def test_an_unscorable_completion_counts_in_no_statistic(self):
        for missing in (None, float("nan")):
            group = buttress.advantages([[1, 0, missing]])[0]
            self.assertEqual(group, [*buttress.advantages([[1, 0]])[0], 0])

    def test_errors_say_what_was_expected(self):
        cases = [
            (lambda: buttress.advantages([[1, 0]], "gpro"), "did you mean 'grpo'"),
            (lambda: buttress.advantages([[1, 0]], epss=1), "did you mean 'eps'"),
            (lambda: buttress.advantages([[1, 0], [1, "x"]]), r'group:2: rewards\[1\] = "x"'),
            (lambda: buttress.advantages([1, 0]), "expected a list 'rewards'"),
            (lambda: buttress.advantages([[1, 0]], lengths=[]), "each of the 1 groups"),
            (lambda: buttress.advantages([[1, object()]]), "not JSON serializable"),
            (lambda: buttress.advantages(None), "rewards = None; expected a list of groups"),
            (lambda: buttress.advantages([[1, 1e300]]), r"rewards\[1\] = 1e\+300; expected null"),
            (lambda: buttress.advantages([[1, float("inf")]]), "not JSON compliant"),
        ]
        for wrong, message in cases:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                wrong()


class Acr(unittest.TestCase):

    def test_counts_the_classes(self):
        rate = buttress.acr([[1, 1], [0, 0], [1, 0], [0.5, 0.5], [1]])
        self.assertEqual(rate.acr, 0.75)
        self.assertEqual(list(rate.classes),
                         ["all_correct", "all_wrong", "mixed", "other_constant", "unscorable"])
        self.assertEqual((rate.groups, rate.mixed, rate.unscorable), (5, 1, 1))

    def test_there_is_no_rate_without_comparable_groups(self):
        self.assertIsNone(buttress.acr([[1], [None, 1]]).acr)


class Verify(unittest.TestCase):

    def test_judges_mathematics(self):
        self.assertEqual(buttress.verify(r"So \boxed{\frac{1}{2}}.", "0.5").outcome, "correct")
        wrong = buttress.verify(r"So \boxed{2}.", "3")
        self.assertEqual((wrong.outcome, wrong.reward, wrong.given), ("wrong", 0, "2"))

    def test_a_response_that_cannot_be_judged_has_a_reason_and_no_reward(self):
        verdict = buttress.verify(r"\boxed{1}", "")
        self.assertEqual((verdict.outcome, verdict.reward), ("unscorable", None))
        self.assertTrue(verdict.reason)

    def test_takes_settings_and_sums(self):
        self.assertEqual(buttress.verify("4", "4", "exact + 0.5 * number").reward, 1.5)
        with self.assertRaisesRegex(ValueError, "did you mean 'mode'"):
            buttress.verify("4", "4", math={"mod": "strict"})
        with self.assertRaisesRegex(ValueError, "math"):
            buttress.verify("4", "4", "maths")

    def test_an_argument_of_another_type_is_named(self):
        cases = [
            (lambda: buttress.verify("5", 5), "answer = 5; expected a text"),
            (lambda: buttress.verify(None, "5"), "response = null; expected a text"),
            (lambda: buttress.verify("5", "5", row=[1]), r"row = \[1\]; expected the fields"),
        ]
        for wrong, message in cases:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                wrong()


if __name__ == "__main__":
    unittest.main()
