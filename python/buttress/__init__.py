"""Advantages, collapse rates and verdicts of Buttress, for training loops in Python.

The functions run the code of Buttress's own trainer. They are thread-safe, release the GIL, and
raise ValueError with what was wrong and what was expected.
"""
import dataclasses
import math
from typing import Any, Mapping, Optional, Sequence

from ._library import call, version

__all__ = ["Collapse", "Verdict", "acr", "advantages", "verify"]

Rewards = Sequence[Sequence[Optional[float]]]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclasses.dataclass(frozen=True)
class Collapse:
    """How many groups give no gradient. A group is constant if its rewards are equal."""

    acr: Optional[float]  # constant groups / (constant + mixed ones); None without such groups
    groups: int
    classes: Sequence[str]  # of each group: the name of one of the counts below
    all_correct: int
    all_wrong: int
    other_constant: int
    mixed: int
    unscorable: int  # fewer than two rewards


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a response is right."""

    outcome: str  # "correct", "wrong" or "unscorable"
    reward: Optional[float]  # of a weighted sum its value; None if unscorable
    reason: str  # why it is unscorable
    given: str  # canonical form of the answer in the response
    gold: str  # canonical form of the reference answer
    anchor: str  # the rule that located the answer, if there are several


def _lists(values: Any) -> Any:
    """Lists of numbers, without the types of numpy and torch; NaN becomes None."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [_lists(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def _groups(rewards: Rewards, **fields: Any) -> list:
    columns = {"rewards": _lists(rewards)}
    if not isinstance(columns["rewards"], list):
        raise ValueError(f"rewards = {rewards!r}; expected a list of groups of rewards")
    columns |= {name: _lists(value) for name, value in fields.items() if value is not None}
    for name, column in columns.items():
        if not isinstance(column, list) or len(column) != len(columns["rewards"]):
            raise ValueError(f"{name}: expected a list with an entry for each of the "
                             f"{len(columns['rewards'])} groups of `rewards`")
    return [dict(zip(columns, group)) for group in zip(*columns.values())]


def advantages(rewards: Rewards, estimator: str = "grpo", *,
               lengths: Optional[Sequence[Sequence[int]]] = None,
               outcomes: Optional[Sequence[Sequence[str]]] = None,
               components: Optional[Sequence[Sequence[Sequence[float]]]] = None,
               history: Optional[Sequence[Mapping[str, int]]] = None,
               seed: int = 1, step: int = 1, **settings: Any) -> list:
    """Returns the advantage of each completion, in the shape of `rewards`.

    `rewards` is [groups, completions]: lists, or an array of numpy or torch; groups may differ in
    size. None and NaN are unscorable: such a completion has the advantage 0 and counts in no
    statistic. The groups are one batch, on its own: a gate that follows earlier steps starts anew.

    `buttress advantages --estimator list` lists the estimators. Some need the tokens of each
    completion (`lengths`), its parts of the reward (`components`), its outcome ("correct", "wrong",
    "unscorable"), or the prompt's past ({"correct": 3, "scored": 16}). `seed` and `step` determine
    random numbers. `settings` are those of run.algorithm: eps=1e-4, avspo={"mode": "ladder"}.
    """
    groups = _groups(rewards, lengths=lengths, outcomes=outcomes, components=components,
                     history=history)
    return call("advantages", groups=groups, estimator=estimator, settings=settings, seed=seed,
                step=step)["advantages"]


def acr(rewards: Rewards, *, outcomes: Optional[Sequence[Sequence[str]]] = None) -> Collapse:
    """Returns the advantage collapse rate of `rewards` [groups, completions] and what it counts."""
    return Collapse(**call("acr", groups=_groups(rewards, outcomes=outcomes)))


def verify(response: str, answer: str = "", verifier: str = "math", *, prompt: str = "",
           row: Optional[Mapping[str, Any]] = None, source: str = "default",
           truncated: bool = False, **settings: Any) -> Verdict:
    """Returns whether `response` gives the reference `answer`.

    `buttress verify --list` lists the verifiers; a weighted sum such as "math + 0.2 * format" is
    one too. `row` holds further fields of the dataset for verifiers that read them, `source` names
    the data source, and `truncated` says that the response reached its limit of tokens. `settings`
    are those of run.reward: math={"mode": "strict"}. A verifier is made at its first call and kept.
    """
    return Verdict(**call("verify", response=response, answer=answer, verifier=verifier,
                          prompt=prompt, row=row or {}, source=source, truncated=truncated,
                          settings=settings))
