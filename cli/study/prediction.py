"""Whether collapse early in a run predicts its final accuracy (the claim of arXiv 2605.21125).

All finished runs of several studies are pooled. One linear model knows task, accuracy of the cold
start, group size and learning rate, the other also the collapse rate of the first fifth of the
run. Each predicts the runs of every seed from those of all other seeds, so that runs with the same
cold start are never on both sides; what the second explains more of the variance within tasks is
the gain, with a bootstrap interval over seeds.
"""

import dataclasses
import math

import numpy as np

from study_file import flat

FEWEST_SEEDS = 10
RIDGE = 1e-3  # of standardised columns: keeps a column that never varies from being singular
DRAWS, LEVEL = 10_000, 0.95
EARLY = 0.2  # share of a run
GAIN = 0.05  # of the variance: what would be worth knowing


@dataclasses.dataclass(frozen=True)
class Row:
    """A run: `task` names study and task, `accuracy` is what is predicted."""

    task: str
    arm: str
    seed: int
    known: tuple  # cold accuracy, log2 of the group size, log2 of the learning rate
    early_acr: float
    accuracy: float


@dataclasses.dataclass(frozen=True)
class Prediction:
    """R2 without (`base`) and with early ACR, and the gain's interval."""

    runs: int
    seeds: int
    base: float
    gain: float
    low: float
    high: float
    slope: float  # sign of the coefficient: accuracy by early ACR

    @property
    def verdict(self):
        if self.seeds < FEWEST_SEEDS:
            return "undecided"
        if self.low > 0:
            return "reproduced"
        return "refuted" if self.high < GAIN else "undecided"


def early_acr(curve):
    """Mean collapse rate up to `EARLY` of the steps; an entry covers the steps since the last."""
    end = EARLY * curve["step"][-1]
    chosen = [acr for step, acr in zip(curve["step"], curve["acr"]) if step <= end]
    return float(np.mean(chosen or curve["acr"][:1]))


def setting(study, task, result, key):
    """The value that a run had. 1 where the program's default holds: the constant of the task takes
    that up, unless only some arms name the setting."""
    for settings in (result["settings"], study.arms[result["arm"]], study.tasks[task].settings,
                     flat(study.base)):
        if key in settings:
            return float(settings[key])
    return 1.0


def rows_of(study, results):
    for trial, result in results.items():
        ends = result["endpoints"]
        known = (ends["cold"],
                 *(math.log2(setting(study, trial.task, result, key))
                   for key in ("run.sampling.group_size", "run.optim.lr")))
        yield Row(f"{study.name} {trial.task}", trial.arm, trial.seed, known,
                  early_acr(result["curve"]), ends["accuracy"])


def categories(names):
    """[N, K] indicator columns."""
    return np.array([[float(name == other) for other in sorted({*names})] for name in names])


def predicted(columns, free, y, seeds):
    """Of each seed's rows by a ridge regression on all others; `free` columns are not shrunk."""
    spread = columns.std(axis=0)
    columns = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1)
    x = np.hstack([columns, free])
    penalty = np.diag([RIDGE * len(y)] * columns.shape[1] + [1e-9] * free.shape[1])
    found = np.empty(len(y))
    for seed in np.unique(seeds):
        held = seeds == seed
        a = x[~held]
        found[held] = x[held] @ np.linalg.solve(a.T @ a + penalty, a.T @ y[~held])
    return found


def predict(rows, by_arm=False, random=None):
    """The gain over `rows`; with `by_arm` both models also know the arm, so that the difference
    between methods predicts nothing and only that between runs of one method is left."""
    random = random or np.random.default_rng(0)
    names = [f"{row.task} {row.arm}" if by_arm else row.task for row in rows]
    free = categories(names)
    y = np.array([row.accuracy for row in rows])
    seeds = np.array([row.seed for row in rows])
    known = np.array([row.known for row in rows])
    early = np.array([[row.early_acr] for row in rows])
    errors = [(y - predicted(columns, free, y, seeds)) ** 2
              for columns in (known, np.hstack([known, early]))]
    total = (y - predicted(np.empty((len(y), 0)), free, y, seeds)) ** 2
    each = np.array([[part[seeds == seed].sum() for part in (total, *errors)]
                     for seed in np.unique(seeds)])
    drawn = each[random.integers(len(each), size=(DRAWS, len(each)))].sum(axis=1)
    gains = (drawn[:, 1] - drawn[:, 2]) / drawn[:, 0]
    low, high = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    whole, base, full = each.sum(axis=0)
    within = [v - free @ (np.linalg.pinv(free) @ v) for v in (early[:, 0], y)]
    return Prediction(len(rows), len(each), 1 - base / whole, (base - full) / whole, low, high,
                      float(np.sign(within[0] @ within[1])))


def section(rows):
    """Of docs/evidence.md."""
    lines = ["", "## Does early collapse predict the end?", "",
             "The collapse rate of the first fifth of a run as a predictor of its final accuracy, "
             "beyond task,", "accuracy of the cold start, group size and learning rate "
             "(`cli/study/prediction.py`): the gain in", "cross-validated R2, each seed's runs "
             "predicted from those of all others. Reproduced: the interval is",
             f"above 0; refuted: below {GAIN:g}.", "",
             "| runs | verdict | R2 without | gain, 95 % | sign | runs of |", "|---" * 6 + "|"]
    pools = [("all studies", rows, False), ("all studies, the arm known too", rows, True)]
    pools += [(task, [row for row in rows if row.task == task], False)
              for task in sorted({row.task for row in rows})]
    for name, pool, by_arm in pools:
        if len({row.seed for row in pool}) < 3:
            continue
        found = predict(pool, by_arm)
        sign = "more collapse, less accuracy" if found.slope < 0 else "more collapse, more accuracy"
        lines.append(f"| {found.runs} | **{found.verdict}** | {found.base:.2f} | {found.gain:+.3f} "
                     f"({found.low:+.3f} to {found.high:+.3f}) | {sign} | {name} |")
    return "\n".join(lines) + "\n"
