"""Early collapse as a predictor: found where it is the cause, and not where it is not."""

import math
import unittest

import numpy as np

import study_case  # noqa: F401 - sets the path
import prediction


def rows(effect, arms=2, seeds=40, by_arm=0.0, noise=0.05, key=0):
    random = np.random.default_rng(key)
    for seed in range(seeds):
        cold = random.uniform(0.1, 0.3)
        for arm in range(arms):
            early = random.uniform(0.2, 0.8) + 0.2 * arm
            accuracy = (cold - effect * early + by_arm * arm + noise * random.standard_normal())
            yield prediction.Row("s t", f"a{arm}", seed, (cold, 3.0, math.log2(1e-3)), early,
                                 accuracy)


class PredictionTest(unittest.TestCase):
    def test_an_effect_is_found_with_its_sign(self):
        found = prediction.predict([*rows(effect=0.3)])
        self.assertEqual((found.verdict, found.slope), ("reproduced", -1))
        # Var(effect * early) over all variance, from the construction.
        early = 0.3 ** 2 * (0.6 ** 2 / 12 + 0.1 ** 2)
        share = early / (early + 0.2 ** 2 / 12 + 0.05 ** 2)
        self.assertAlmostEqual(found.gain, share, delta=0.12)

    def test_without_an_effect_the_gain_is_refuted_or_undecided(self):
        verdicts = [prediction.predict([*rows(effect=0, key=key)]).verdict for key in range(40)]
        self.assertLessEqual(verdicts.count("reproduced"), 3)
        self.assertGreaterEqual(verdicts.count("refuted"), 30)

    def test_what_is_the_arms_alone_is_no_prediction_once_the_arm_is_known(self):
        pool = [*rows(effect=0, by_arm=0.3)]
        self.assertEqual(prediction.predict(pool).verdict, "reproduced")
        self.assertNotEqual(prediction.predict(pool, by_arm=True).verdict, "reproduced")

    def test_few_seeds_decide_nothing(self):
        self.assertEqual(prediction.predict([*rows(effect=0.3, seeds=9)]).verdict, "undecided")

    def test_the_first_fifth_of_the_steps_counts(self):
        curve = {"step": [*range(10, 101, 10)], "acr": [0.9, 0.7] + [0.1] * 8}
        self.assertAlmostEqual(prediction.early_acr(curve), 0.8)

    def test_early_is_at_least_the_first_entry(self):
        self.assertEqual(prediction.early_acr({"step": [50, 100], "acr": [0.5, 0.1]}), 0.5)


if __name__ == "__main__":
    unittest.main()
