"""The claims of a study: which arm against which, by what, and what is promised."""

import dataclasses

from reader import Reader

BUILT_IN = ("accuracy", "accuracy_at_equal_tokens", "acr", "acr_100", "entropy", "tokens")
BETTER_LOWER = ("acr", "acr_100", "tokens")
NO_SHARE = ("entropy", "tokens")


def unit_of(endpoint, relative=False):
    """Behind a number: shares are compared in percentage points."""
    if relative:
        return " %"
    return "" if endpoint in NO_SHARE else " points"


def amount(value, endpoint, relative=False, form="g"):
    unit = unit_of(endpoint, relative)
    return f"{100 * value if unit else value:{form}}{unit}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`arm` against `against`: the mean over seeds of the difference of `endpoint`, or with
    `relative` of its mean as a share of the mean of `against`. Of several tasks a seed's number is
    the mean over them. `lower` turns the sign, so that an effect above 0 is an improvement.
    `keeps` names an endpoint that `arm` must keep too, to `margin`; where it is the endpoint
    itself, nothing else is claimed."""

    tasks: tuple
    arm: str
    against: str
    claim: str
    source: str = ""
    endpoint: str = "accuracy"
    at_least: float = 0.0
    margin: float = 0.03  # of equivalence (TOST)
    lower: bool = False
    relative: bool = False
    keeps: str = ""
    readme: bool = False  # whether the table in README has it

    @property
    def task(self):
        """In words."""
        return ", ".join(self.tasks)

    @property
    def only_keeps(self):
        return self.keeps == self.endpoint


def tasks_of(reader, tasks):
    """`task: NAME`, `task: all` or `tasks: [NAME, ...]`."""
    if "tasks" in reader.left:
        chosen = reader.take("tasks", list)
    else:
        task = reader.take("task", str)
        chosen = [*tasks] if task == "all" else [task]
    for name in chosen:
        if name not in tasks:
            reader.fail("task", f"{name!r} is none of {', '.join(tasks)}, all")
    if not chosen or len({*chosen}) < len(chosen):
        reader.fail("tasks", "expected one task or more, each once")
    return tuple(chosen)


def check_kept(reader, comparison, endpoints):
    higher = [name for name in endpoints if name not in BETTER_LOWER]
    if comparison.keeps and comparison.keeps not in higher:
        reader.fail("keeps", f"{comparison.keeps!r} is none of {', '.join(higher)}, which are "
                    "better when they are higher")
    if comparison.only_keeps and (comparison.at_least or comparison.lower or comparison.relative):
        reader.fail("keeps", "is the endpoint itself, of which no gain is claimed then: leave out "
                    "at_least, lower and relative")


def read_comparison(path, number, value, tasks, arms):
    reader = Reader(path, f"comparisons[{number}]", value)
    chosen = tasks_of(reader, tasks)
    shared = [key for key in tasks[chosen[0]].evaluations
              if all(key in tasks[name].evaluations for name in chosen)]
    endpoints = (*BUILT_IN, *shared)
    comparison = Comparison(
        chosen, reader.choice("arm", tuple(arms)), reader.choice("against", tuple(arms)),
        reader.take("claim", str), reader.take("source", str, ""),
        reader.choice("endpoint", endpoints, "accuracy"), reader.take("at_least", float, 0.0),
        reader.take("margin", float, 0.03), reader.take("lower", bool, False),
        reader.take("relative", bool, False), reader.take("keeps", str, ""),
        reader.take("readme", bool, False))
    if comparison.arm == comparison.against:
        reader.fail("against", f"is the arm itself, {comparison.arm}")
    if comparison.at_least < 0 or comparison.margin <= 0:
        reader.fail("at_least", "expected 0 or more, and margin above 0; `lower: true` is for "
                    "endpoints that are better when they are lower")
    check_kept(reader, comparison, endpoints)
    reader.end()
    return comparison
