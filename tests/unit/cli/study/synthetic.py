"""Synthetic results of studies whose truth is known."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "cli/study"))
import study_file  # noqa: E402
from trial import Trial  # noqa: E402

SHAPES = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.exponential(size=size) - 1,
    "heavy": lambda rng, size: rng.standard_t(4, size=size) / np.sqrt(2),
}


def study_of(comparisons, primary="accuracy"):
    """A study that is judged and never run."""
    return study_file.Study(pathlib.Path("toy.yaml"), "toy", primary, {}, {"t": None}, {}, "", [],
                            0, 1, comparisons, {})


def results_of(rng, seeds, effects, deviation=0.095, shape="normal", base=0.5, cold_weight=0.0):
    """Results of an arm `control` and an arm for each of `effects`, {name: true effect}, whose
    differences to the control have that standard deviation."""
    draw = SHAPES[shape]
    cold = 0.05 * draw(rng, seeds)
    control = base + 0.05 * draw(rng, seeds)
    arms = {"control": control}
    for name, effect in effects.items():
        arms[name] = control + effect + deviation * draw(rng, seeds) + cold_weight * cold
    results = {}
    for name, values in arms.items():
        for seed in range(seeds):
            curve = {"step": [1, 2], "tokens": [100, 200], "accuracy": [values[seed]] * 2,
                     "acr": [0.5, 0.5], "entropy": [1.0, 1.0]}
            results[Trial("t", name, seed + 1)] = {
                "endpoints": {"accuracy": values[seed], "acr": values[seed], "cold": cold[seed]},
                "curve": curve, "seconds": 1.0,
                "build": {"programs": "p", "cpu": "x", "commit": "c"}}
    return results
