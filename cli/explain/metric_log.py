"""Reads the collapse rate of a run of another trainer from its log of metrics, for
`buttress explain`. A log has rates and no groups, so it shows how much collapsed, and of the causes
those that its other metrics show.

metric_log.py PATH [--json]   PATH: JSONL, trainer_state.json, the text that a trainer printed, or a
                              folder of one of these

Writes {"report": text} to stdout; {"error": text} for a log without a rate; {} where there is no
log.
"""

import dataclasses
import json
import math
import pathlib
import re
import statistics
import sys

ROWS = 12  # of the table over time
STEP_NAMES = ("step", "global_step", "_step", "training/global_step", "data/training/global_step",
              "trainer/global_step", "rollout/step")
# Of the raw reward; verl's critic/rewards/mean is the shaped one.
REWARDS = ("reward", "critic/score/mean", "reward/mean", "rollout_reward/_mean",
           "critic/rewards/mean")
LENGTHS = ("completions/mean_length", "response_length/mean", "response_length",
           "completion_length")
OUTCOME = re.compile(r"rewards/[^/]*(correct|accura|outcome|verif)[^/]*/mean")
SHOWN = {  # what shows a cause: the names of its metric
    "truncated": ("completions/clipped_ratio", "response_length/clip_ratio", "truncated_rate"),
    "entropy": ("entropy", "actor/entropy", "actor/entropy_loss"),
    "kl": ("kl", "actor/kl_loss", "actor/ppo_kl"),
    "clipped": ("clip_ratio/region_mean", "actor/pg_clipfrac", "clip_ratio"),
    "gradient": ("grad_norm", "actor/grad_norm"),
    "evaluation": ("eval_reward", "eval/accuracy", "eval/reward"),
}
FEWEST_STEPS = 20  # of a log that shows causes
SHOWN_OF_A_STEP = ("step", "acr", "all_correct", "all_wrong", "dropped", "raw_reward", "length")
DEEPEST = 4  # levels of nested objects
LARGEST_STATE = 256 << 20  # bytes
NUMBER = re.compile(r"[ '\"]*(?:np\.\w*\()?([-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|"
                    r"(?:nan|inf(?:inity)?)(?![a-z])))", re.IGNORECASE)
NAMED = 3  # metrics that are not finite


@dataclasses.dataclass
class Metric:
    """How a trainer names the collapse of groups: a metric has this name, or ends in a slash and
    it. Its use is acr (share of groups with equal rewards), informative (share of the others),
    all_correct or all_wrong (parts of the first), or dropped (the number of groups)."""

    name: str
    use: str
    trainer: str
    scale: float = 1
    whole: str = ""  # the metric to divide by


# Names for the same use are tried in this order.
METRICS = [
    Metric("frac_reward_zero_std", "acr", "TRL"),
    Metric("rollout_reward/group_zero_std_frac", "acr", "torchtitan"),
    Metric("rollout_reward/group_zero_std_frac/mean", "acr", "torchtitan"),
    Metric("training/n_zero_adv_groups", "acr", "Agent Lightning", 1, "training/n_groups"),
    Metric("training/filter_groups/filtered_groups", "acr", "verl", 1,
           "training/filter_groups/generated_groups"),
    Metric("dynamic_filtering_pass_rate", "informative", "OpenRLHF", 0.01),
    Metric("async/keep_rate", "informative", "SkyRL"),
    Metric("fractions/effective", "informative", "rLLM"),
    Metric("fractions/too_easy", "all_correct", "rLLM"),
    Metric("fractions/too_hard", "all_wrong", "rLLM"),
    Metric("by_group/frac_mixed", "informative", "tinker-cookbook"),
    Metric("by_group/frac_all_good", "all_correct", "tinker-cookbook"),
    Metric("by_group/frac_all_bad", "all_wrong", "tinker-cookbook"),
    Metric("baseline_reward/pct_mixed", "informative", "NeMo RL", 0.01),
    Metric("baseline_reward/pct_1", "all_correct", "NeMo RL", 0.01),
    Metric("baseline_reward/pct_0", "all_wrong", "NeMo RL", 0.01),
    Metric("solved_all", "all_correct", "prime-rl"),
    Metric("solved_none", "all_wrong", "prime-rl"),
    # Shares in spite of their names; groups of other equal rewards are not in them.
    Metric("zero_std/all_one_percentage", "all_correct", "Miles"),
    Metric("zero_std/all_zero_percentage", "all_wrong", "Miles"),
    Metric("data/step_num_groups_trainable", "informative", "ART", 1,
           "data/step_num_groups_submitted"),
    Metric("training/filter_groups/evicted_samples", "dropped", "verl"),
    Metric("reward/num_zero_variance_filtered", "dropped", "SkyRL"),
    Metric("async/num_groups_dropped", "dropped", "SkyRL"),
    Metric("training_sample_builder/num_groups_dropped_zero_std", "dropped", "torchtitan"),
    Metric("training_sample_builder/num_groups_dropped_zero_std/sum", "dropped", "torchtitan"),
]


class NoRate(Exception):
    """A file is surely a log, and has no rate of collapse."""


@dataclasses.dataclass
class Log:
    path: str
    trainer: str = ""  # whose names were found
    names: list = dataclasses.field(default_factory=list)  # of the metrics that gave the rates
    points: list = dataclasses.field(default_factory=list)
    without_rate: int = 0  # lines with a reward
    # The lines with a NaN or an infinity by the metric that has it: their number and the first.
    lost: dict = dataclasses.field(default_factory=dict)

    def acr(self):
        return [point["acr"] for point in self.points if point["acr"] is not None]


def number_in(text):
    """A number, perhaps as numpy prints it, np.float64(0.5); None if there is none."""
    found = NUMBER.match(text)
    return float(found[1]) if found else None


def flatten(row, prefix="", depth=0):
    """The numbers of an object by name; those of nested objects by names with slashes."""
    values = {}
    for name, value in row.items():
        key = f"{prefix}/{name}" if prefix else name
        if isinstance(value, dict) and depth < DEEPEST:
            values.update(flatten(value, key, depth + 1))
        elif isinstance(value, str):
            values[key] = number_in(value)
        elif isinstance(value, float):
            values[key] = value
    return {key: value for key, value in values.items() if value is not None}


def parsed(text):
    try:
        return json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None


def values_of(line):
    """The numbers of a line in one of these forms; {} for other lines.

    {"step": 3, "reward": 0.5}                           JSON
    (TaskRunner pid=7) step:3 - critic/score/mean:0.5    the console of verl
    Global step 3: {'reward': 0.5, 'kl': '1e-3'}         a dict of Python: OpenRLHF and TRL
    """
    if line.lstrip().startswith("{"):
        row = parsed(line)
        if isinstance(row, dict):
            return flatten(row)
    _, step, rest = line.partition("step:")
    if step and " - " in rest:
        pairs = (step + rest).split(" - ")
        return flatten(dict(pair.split(":", 1) for pair in pairs if ":" in pair))
    if "{'" not in line:
        return {}
    before, items = line.split("{'", 1)
    # A text's own quotes are not those of a key.
    values = flatten(dict(re.findall(r"'([^']*)':( '[^']*'|[^,}]*)", "'" + items)))
    step = re.search(r"Global step (\d+)", before)
    return {"global_step": float(step[1]), **values} if step else values


def find(values, name):
    """The value of the metric of this name, or of one that ends in it."""
    for key in sorted(values):
        if key == name or key.endswith("/" + name):
            return values[key]
    return None


def first_of(values, names):
    return next((value for value in (find(values, name) for name in names) if value is not None),
                None)


def outcome_of(values, reward):
    """The share of right completions: a reward that is named so, or the one reward there is."""
    parts = [key for key in values if re.search(r"(^|/)rewards/[^/]+/mean$", key)]
    named = [key for key in parts if OUTCOME.search(key)]
    if len(named) == 1:
        return values[named[0]]
    return reward if len(parts) < 2 else None


def finite(log, values, line):
    """The finite ones of the values of a line. The others are counted."""
    for key, value in values.items():
        if not math.isfinite(value):
            count, first = log.lost.get(key, (0, line))
            log.lost[key] = count + 1, first
    return {key: value for key, value in values.items() if math.isfinite(value)}


def add(log, values, is_log, line=1):
    """Adds a line. `is_log` says that nothing but a log has such lines."""
    values = finite(log, values, line)
    point = {name: None for name in ("step", "acr", "all_correct", "all_wrong", "dropped")}
    training = {key: value for key, value in values.items() if not key.startswith("eval")}
    for metric in METRICS:
        value = find(training, metric.name)
        whole = find(training, metric.whole) if metric.whole else 1
        place = "acr" if metric.use == "informative" else metric.use
        if value is None or not whole or whole < 0 or point[place] is not None:
            continue
        value *= metric.scale / whole
        point[place] = 1 - value if metric.use == "informative" else value
        log.trainer = log.trainer or metric.trainer
        if metric.name not in log.names:
            log.names.append(metric.name)
    point["raw_reward"] = first_of(values, REWARDS)
    point["length"] = first_of(values, LENGTHS)
    point["outcome"] = outcome_of(values, point["raw_reward"])
    point.update({name: first_of(values, metrics) for name, metrics in SHOWN.items()})
    if all(point[place] is None for place in ("acr", "all_correct", "all_wrong", "dropped")):
        if log.points and point["evaluation"] is not None:  # a line of its own
            log.points[-1]["evaluation"] = point["evaluation"]
        log.without_rate += is_log and point["raw_reward"] is not None
        return
    if point["acr"] is None and None not in (point["all_correct"], point["all_wrong"]):
        point["acr"] = point["all_correct"] + point["all_wrong"]
    step = next((values[name] for name in STEP_NAMES if name in values), len(log.points) + 1)
    point["step"] = int(step)
    log.points.append(point)


def read_file(path):
    """The log in a file, or None. The state of a Hugging Face Trainer is one object over many
    lines."""
    log = Log(str(path))
    is_state = path.suffix == ".json" and path.stat().st_size <= LARGEST_STATE
    state = parsed(path.read_text(errors="replace")) if is_state else None
    if isinstance(state, dict) and isinstance(state.get("log_history"), list):
        for number, entry in enumerate(state["log_history"]):
            add(log, flatten(entry) if isinstance(entry, dict) else {}, True,
                f"log_history[{number}]")
    else:
        with path.open(errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                # An object of JSON may as well be a row of completions, unless verl's FileLogger
                # wrote it.
                add(log, values_of(line), '"critic/score/mean"' in line or line[:2] != '{"',
                    f"line {number}")
    if log.points:
        return log
    if log.without_rate == 0:
        return None
    raise NoRate(
        f"{path} is a log of {log.without_rate} steps without a rate of collapse; verl logs one "
        "with algorithm.filter_groups, TRL with GRPO's frac_reward_zero_std. For the causes give "
        "the completions, as verl writes them with trainer.rollout_data_dir and TRL with "
        "log_completions")


def candidates(folder):
    """The files of a folder that may be logs, the best one first."""
    checkpoints = sorted(folder.glob("checkpoint-*"),
                         key=lambda path: number_in(path.name.rpartition("-")[2]) or 0)
    return [folder / "trainer_state.json",
            *(path / "trainer_state.json" for path in checkpoints[-1:]),
            *sorted(path for path in folder.iterdir() if path.suffix in (".jsonl", ".log"))]


def read(path):
    path = pathlib.Path(path)
    files = [file for file in candidates(path) if file.is_file()] if path.is_dir() else [path]
    return next((log for log in map(read_file, files) if log), None)


def mean_of(points, name):
    values = [point[name] for point in points if point[name] is not None]
    return statistics.fmean(values) if values else None


def acr_100(acr):
    return statistics.fmean(acr[:100]) if acr else None


def sigma_acr(acr):
    return (statistics.stdev(acr[-25:]) if len(acr) > 1 else 0.0) if acr else None


class Curve:
    """The values of a metric by step, without the steps that do not have it."""

    def __init__(self, points, name):
        self.points = [(p["step"], p[name]) for p in points if p[name] is not None]
        self.values = [value for _, value in self.points]

    def __len__(self):
        return len(self.values)

    def first(self, share):
        """The mean over the first part."""
        return statistics.fmean(self.values[:max(1, int(len(self) * share))])

    def last(self, share):
        return statistics.fmean(self.values[-max(1, int(len(self) * share)):])


def causes(log):
    """The causes that the curves show, with the evidence: [(cause, evidence)]. A tenth of the run
    is compared with another tenth, so that single steps do not matter."""
    curves = {name: Curve(log.points, name)
              for name in ("acr", "outcome", "raw_reward", "length", *SHOWN)}
    curves = {name: c for name, c in curves.items()
              if len(c) >= (6 if name == "evaluation" else FEWEST_STEPS)}

    def ends(name):
        return curves[name].first(0.1), curves[name].last(0.1)

    found = unproven_gain(curves, ends)
    if "acr" in curves and "outcome" in curves and curves["acr"].last(0.25) > 0.5:
        outcome, acr = curves["outcome"].last(0.25), curves["acr"].last(0.25)
        within = all(-0.05 <= value <= 1.05 for value in curves["outcome"].values)
        if within and not 0.2 <= outcome <= 0.8:
            found.append(("too easy" if outcome > 0.8 else "too hard",
                          f"{acr:.2f} of the groups of the last quarter have no signal, and "
                          f"{outcome:.2f} of the completions are right"))
    if "truncated" in curves and curves["truncated"].last(0.1) > 0.25:
        found.append(("truncated", "at the end {1:.2f} of the completions reach the token limit, "
                      "at the beginning {0:.2f}".format(*ends("truncated"))))
    if "entropy" in curves and 0 <= ends("entropy")[1] < 0.1 * ends("entropy")[0]:
        found.append(("mode-collapsed",
                      "the entropy falls from {:.3g} to {:.3g}".format(*ends("entropy"))))
    if "kl" in curves and ends("kl")[1] > 1:
        found.append(("far from the reference", "the KL divergence of a token grows from "
                      "{:.3g} to {:.3g}".format(*ends("kl"))))
    if "clipped" in curves and ends("clipped")[1] > 0.25:
        found.append(("clipped updates", "the ratio of {1:.2f} of the tokens is clipped at the "
                      "end, of {0:.2f} at the beginning".format(*ends("clipped"))))
    if "gradient" in curves:
        usual = statistics.median(curves["gradient"].values)
        spikes = [step for step, norm in curves["gradient"].points if norm > 10 * usual]
        if 3 <= len(spikes) <= len(curves["gradient"]) / 4:
            found.append(("gradient spikes", f"{len(spikes)} steps, the first {spikes[0]}, have "
                          "more than ten times the usual norm"))
    return found


def unproven_gain(curves, ends):
    """The reward of training rises much, and that of the evaluations does not."""
    if "evaluation" not in curves or "raw_reward" not in curves:
        return []
    before, after = ends("raw_reward")
    first, last = curves["evaluation"].first(0.2), curves["evaluation"].last(0.2)
    if after - before < 0.2 or last - first > 0.3 * (after - before):
        return []
    evidence = (f"the reward rises from {before:.2f} to {after:.2f}, in evaluations from "
                f"{first:.2f} to {last:.2f}")
    if "length" in curves and ends("length")[1] > 2 * ends("length")[0]:
        evidence += ", and completions grow from {:.0f} to {:.0f} tokens".format(*ends("length"))
    return [("reward without evaluation", evidence)]


def as_text(log):
    def cell(part, name, decimals):
        mean = mean_of(part, name)
        return "-" if mean is None else f"{mean:.{decimals}f}"

    acr = log.acr()
    text = f"{log.path}: log of {log.trainer}, {len(log.points)} steps\n"
    text += f"collapse is read from {', '.join(log.names)}\n"
    for key, (count, first) in sorted(log.lost.items())[:NAMED]:
        lines = "1 line" if count == 1 else f"{count} lines"
        text += f"note: {key} is NaN or infinite in {lines}, the first {first}: left out\n"
    if len(log.lost) > NAMED:
        text += f"note: so are {len(log.lost) - NAMED} more metrics\n"
    if acr:
        text += (f"ACR {mean_of(log.points, 'acr'):.3f} on average, {acr[-1]:.3f} at the end; "
                 f"ACR-100 {acr_100(acr):.3f}, sigma-ACR {sigma_acr(acr):.3f}\n")
    else:
        text += ("the log has the number of groups that were dropped and not their share, so it "
                 "has no ACR\n")
    text += "\n     steps          ACR  all-correct  all-wrong   dropped  raw reward    length\n"
    rows = min(ROWS, len(log.points))
    for row in range(rows):
        part = log.points[row * len(log.points) // rows:(row + 1) * len(log.points) // rows]
        text += (f"{part[0]['step']:7} - {part[-1]['step']:<7} {cell(part, 'acr', 2):>5}  "
                 f"{cell(part, 'all_correct', 2):>11}  {cell(part, 'all_wrong', 2):>9}  "
                 f"{cell(part, 'dropped', 1):>8}  {cell(part, 'raw_reward', 3):>10}  "
                 f"{cell(part, 'length', 0):>8}\n")
    for cause, evidence in causes(log):
        text += f"\n{cause}: {evidence}\n"
    return text + ("\na log has rates and no groups: the cause of each group needs the "
                   "completions, as verl writes them with trainer.rollout_data_dir and TRL with "
                   "log_completions\n")


def as_json(log):
    acr = log.acr()
    summary = {"log": log.path, "trainer": log.trainer, "metrics": log.names,
               "acr": mean_of(log.points, "acr"), "acr_100": acr_100(acr),
               "sigma_acr": sigma_acr(acr),
               "not_finite": {key: {"count": count, "first": first}
                              for key, (count, first) in sorted(log.lost.items())},
               "causes": [{"name": name, "evidence": evidence} for name, evidence in causes(log)],
               "steps": [{key: point[key] for key in SHOWN_OF_A_STEP} for point in log.points]}
    return json.dumps({"summary": summary}, separators=(",", ":")) + "\n"


def main(path, *options):
    try:
        log = read(path)
    except NoRate as error:
        return {"error": str(error)}
    except OSError:
        return {}
    return {"report": (as_json if "--json" in options else as_text)(log)} if log else {}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
