"""Compares what `buttress explain` says of dumps that TRL and verl wrote with their own numbers.

compare.py --buttress PROGRAM --verl WHEEL

TRL trains a tiny model; verl's writers get the completions of that run. What is compared is counted
here from the rows, with pandas and json, or stands in the trainer's log. Prints a table, and fails
if a number differs.
"""

import argparse
import contextlib
import io
import json
import logging
import math
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
import pandas as pd
import trl_run
import verl_writers


def explain(program, path, *options):
    out = subprocess.run([program, "explain", path, "--json", *options], capture_output=True,
                         text=True)
    assert out.returncode == 0, f"explain {path}: {out.stderr}"
    *groups, last = map(json.loads, out.stdout.splitlines())
    return groups, last["summary"]


def classes(outcomes):
    """Counts of a frame with the columns step, group, outcome; an outcome of NaN has no verdict."""
    counts = dict.fromkeys(["groups", "all_correct", "all_wrong", "mixed", "unscorable"], 0)
    for _, values in outcomes.groupby(["step", "group"])["outcome"]:
        scored = values.dropna()
        kind = "unscorable" if len(scored) < 2 else "mixed" if scored.nunique() > 1 else (
            "all_correct" if scored.iloc[0] == 1 else "all_wrong")
        counts[kind] += 1
        counts["groups"] += 1
    constant = counts["all_correct"] + counts["all_wrong"]
    return {**counts, "acr": constant / (constant + counts["mixed"])}


def with_signal(frame, reward):
    """Groups in which the trainer's reward differs."""
    spread = frame.groupby(["step", "group"])[reward].agg(lambda r: r.max() - r.min())
    return int((spread > 1e-6).sum())


class Comparison:
    def __init__(self, name):
        self.name, self.numbers, self.bad = name, 0, []

    def equal(self, what, found, expected, tolerance=1e-6):
        self.numbers += 1
        if found is None or not math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance):
            self.bad.append(f"{what}: {found} instead of {expected}")

    def remark(self, summary, part):
        self.numbers += 1
        if not any(part in remark for remark in summary["remarks"]):
            self.bad.append(f"no remark with '{part}' among {summary['remarks']}")

    def frame(self, groups, summary, frame):
        """`frame` has a row for each completion: step, group, text, outcome, reward."""
        for key, value in classes(frame).items():
            self.equal(key, summary[key], value)
        self.equal("completions", summary["completions"], len(frame))
        self.equal("groups without a signal", len(groups), summary["groups"] - summary["mixed"])
        grpo = next(e for e in summary["remedies"]["estimators"] if e["name"] == "grpo")
        self.equal("groups whose shaped rewards differ", grpo["with_advantage"],
                   with_signal(frame, "reward"))
        assert [s["step"] for s in summary["steps"]] == sorted(frame["step"].unique().tolist())
        for point in summary["steps"]:
            rows = frame[frame["step"] == point["step"]]
            place = f"step {point['step']}, "
            for key, value in classes(rows).items():
                self.equal(place + key, point[key], value)
            self.equal(place + "raw reward", point["raw_reward_mean"], rows["reward"].mean())
            self.equal(place + "accuracy", point["accuracy"], rows["outcome"].mean())
            self.equal(place + "length", point["length_mean"], rows["text"].str.len().mean())


def trl_frame(folder):
    """The rows of TRL's dump, without the batches that it logs again."""
    frames, last = [], None
    for path in sorted((folder / "completions").iterdir()):
        frame = pd.read_parquet(path)
        texts = frame["completion"].tolist()
        if texts != last:
            frames.append(frame)
        last = texts
    frame = pd.concat(frames, ignore_index=True)
    frame["group"] = frame["prompt"]
    frame["text"] = frame["completion"]
    return frame


def history_of(folder):
    state = json.loads((folder / "trainer_state.json").read_text())
    return {e["step"]: e for e in state["log_history"] if "frac_reward_zero_std" in e}


def compare_trl(program, folder, name, outcome, weights, by_group=True):
    """`weights` are those with which TRL trained, the largest is 1. Where it does not divide by the
    deviation of a group, its rate is not that of groups."""
    comparison = Comparison(name)
    groups, summary = explain(program, folder)
    frame, history = trl_frame(folder), history_of(folder)
    frame["outcome"] = frame[outcome]
    parts = pd.concat([w * frame[column] for column, w in weights.items()], axis=1)
    frame["reward"] = parts.sum(axis=1, min_count=1)
    comparison.frame(groups, summary, frame)
    for point in summary["steps"]:  # what TRL itself says of the step
        logged = history[point["step"]]
        comparison.equal(f"step {point['step']}, TRL's reward", point["raw_reward_mean"],
                         logged["reward"], 1e-5)
    silent = frame.groupby(["step", "group"])["advantage"].agg(lambda a: a.abs().max() < 1e-3)
    comparison.equal("groups without an advantage", int(silent.sum()),
                     len(silent) - with_signal(frame, "reward"))
    _, log = explain(program, folder / "trainer_state.json")
    rates = [entry["frac_reward_zero_std"] for entry in history.values()]
    comparison.equal("ACR of the log", log["acr"], np.mean(rates))
    comparison.equal("ACR of the log against the dump", log["acr"],
                     silent.mean() if by_group else 0)
    comparison.equal("steps of the log", len(log["steps"]), len(history))
    for point in log["steps"]:
        comparison.equal("length in the log", point["length"],
                         history[point["step"]]["completions/mean_length"])
    return comparison, summary, frame


def as_verl(frame, reward):
    """{step: rows} for verl's writers, the groups of a step interleaved."""
    steps = {}
    for step, rows in frame.groupby("step"):
        rows = rows.assign(place=rows.groupby("group").cumcount()).sort_values(["place", "group"])
        steps[int(step)] = [{
            "prompt": row["prompt"], "completion": row["completion"], "score": row[reward],
            "acc": row["outcome"], "wanted": trl_run.PROMPTS[row["prompt"]] or "none",
            "uid": f"{step}{row['group'].replace(' ', '')}_{row['place']}_0"
        } for _, row in rows.iterrows()]
    return steps


def verl_frame(folder, outcome, group):
    rows = [json.loads(line) for path in sorted(folder.iterdir()) for line in path.open()]
    frame = pd.DataFrame(rows)
    frame["outcome"] = frame[outcome].map(lambda v: float(v in (1, True, "True")))
    frame["reward"], frame["text"] = frame["score"], frame["output"]
    frame["group"] = frame[group].map(lambda v: v.split("_")[0])
    return frame


def compare_verl(program, folder, name, outcome, group):
    comparison = Comparison(name)
    groups, summary = explain(program, folder)
    comparison.frame(groups, summary, verl_frame(folder, outcome, group))
    return comparison, summary


def run_trl(program, scratch):
    names = [trl_run.correctness, trl_run.brevity]
    trl_run.train(scratch / "weights", names, 48, reward_weights=[1.0, 0.2], num_iterations=2)
    weights, summary, frame = compare_trl(program, scratch / "weights", "TRL, two rewards",
                                          "correctness", {"correctness": 1, "brevity": 0.2})
    weights.remark(summary, "0.2 brevity + correctness")
    weights.remark(summary, "letters is no reward")
    weights.remark(summary, "24 steps were left out")
    trl_run.train(scratch / "single", [trl_run.correctness], 12, scale_rewards="none",
                  loss_type="dr_grpo")
    single, _, _ = compare_trl(program, scratch / "single", "TRL, one reward, scale_rewards none",
                               "correctness", {"correctness": 1})
    trl_run.train(scratch / "gaps", [trl_run.judged], 12, scale_rewards="batch")
    gaps, _, _ = compare_trl(program, scratch / "gaps", "TRL, completions without a verdict",
                             "judged", {"judged": 1}, by_group=False)
    trl_run.train(scratch / "sums", names, 12, multi_objective_aggregation="normalize_then_sum")
    _, summary = explain(program, scratch / "sums")
    sums = Comparison("TRL, normalize_then_sum")
    sums.remark(summary, "no sum of the columns gives the advantages")
    evaluated, seldom = Comparison("TRL, eval_strategy"), Comparison("TRL, logging_steps")
    trl_run.train(scratch / "evaluated", [trl_run.correctness], 12, eval_strategy="steps",
                  eval_steps=4, per_device_eval_batch_size=4 * trl_run.GROUP)
    _, summary = explain(program, scratch / "evaluated")
    evaluated.remark(summary, "3 steps were left out because TRL evaluated at them")
    evaluated.equal("steps", len(summary["steps"]), 9)
    trl_run.train(scratch / "seldom", [trl_run.correctness], 12, logging_steps=3)
    _, summary = explain(program, scratch / "seldom")
    seldom.remark(summary, "one of every 3 steps")
    return [weights, single, gaps, sums, evaluated, seldom], frame


def run_verl(program, scratch, verl, tokenizer, frame):
    evicted = {int(step): int(step) % 3 for step in frame["step"].unique()}
    steps = as_verl(frame, "reward")
    folders = {name: scratch / name for name in ("rewards", "objects", "v1", "filtered")}
    log = scratch / "verl.jsonl"
    verl_writers.write(verl, folders["rewards"], log, steps, tokenizer,
                       lambda rows: {"acc": np.array([row["acc"] == 1 for row in rows])}, evicted)
    done = [compare_verl(program, folders["rewards"], "verl, ray_trainer._log_rollout_data, acc",
                         "acc", "input")[0]]
    _, summary = explain(program, log)
    for point in summary["steps"]:
        done[0].equal("groups dropped in the log", point["dropped"], evicted[point["step"]])
        rows = frame[frame["step"] == point["step"]]
        done[0].equal("reward in the log", point["raw_reward"], rows["reward"].mean())
    done[0].equal("steps of the log", len(summary["steps"]), len(steps))

    verl_writers.write(
        verl, folders["objects"], scratch / "objects.jsonl", steps, tokenizer, lambda rows:
        {"acc": np.array([np.bool_(row["acc"] == 1) for row in rows], dtype=object)}, {})
    done.append(compare_verl(program, folders["objects"], "verl, acc of numpy's booleans", "acc",
                             "input")[0])
    out = subprocess.run([program, "explain", scratch / "objects.jsonl"], capture_output=True,
                         text=True)
    assert out.returncode != 0 and "without a rate of collapse" in out.stderr, out.stderr

    verl_writers.write_v1(verl, folders["v1"], as_verl(frame, "outcome"), tokenizer)
    done.append(compare_verl(program, folders["v1"], "verl, v1 trainer_base, uid", "score",
                             "uid")[0])

    mixed = frame.groupby(["step", "group"])["outcome"].transform("nunique") > 1
    verl_writers.write_v1(verl, folders["filtered"], as_verl(frame[mixed], "outcome"), tokenizer)
    filtered, summary = compare_verl(program, folders["filtered"], "verl, filter_groups", "score",
                                     "uid")
    filtered.remark(summary, "groups is constant: what a trainer filters out")
    return done + [filtered]


def spoil(program, scratch):
    """Damages the dumps; each error names the file, the line and what is wrong there."""
    comparison = Comparison("damaged dumps")

    def refuses(path, part):
        out = subprocess.run([program, "explain", path], capture_output=True, text=True)
        comparison.numbers += 1
        if out.returncode == 0 or part not in out.stderr:
            comparison.bad.append(f"'{part}' is not in: {out.stderr or out.stdout}")

    first = scratch / "v1" / "1.jsonl"
    whole = first.read_text()
    lines = whole.splitlines(keepends=True)
    first.write_text(whole[:-20])
    refuses(scratch / "v1", f"1.jsonl:{len(lines)}: not a JSON object: the file ends inside")
    for old, new, why in (('"score"', '"reward"', "no field 'score'"),
                          ('"score": 1.0', '"score": "good"', 'score = "good"; expected a number'),
                          ('"step": 1', '"step": 0', "step 0 after step 1")):
        at = next(i for i in range(3, len(lines)) if old in lines[i])
        first.write_text("".join(lines[:at] + [lines[at].replace(old, new)] + lines[at + 1:]))
        refuses(scratch / "v1", f"1.jsonl:{at + 1}: {why}")
    first.write_text(whole)
    empty = scratch / "empty.jsonl"
    empty.write_text('{"step": 1, "rewards": [1, 0]}\n{"step": 1, "rewards": []}\n')
    refuses(empty, "empty.jsonl:2: ")
    parquet = scratch / "single" / "completions" / "completions_00003.parquet"
    data = parquet.read_bytes()
    parquet.write_bytes(data[:len(data) // 2])
    refuses(scratch / "single", "completions_00003.parquet")
    return comparison


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--buttress", required=True)
    parser.add_argument("--verl", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            done, frame = run_trl(options.buttress, scratch)
            done += run_verl(options.buttress, scratch, verl_writers.Verl(options.verl),
                             trl_run.make_tokenizer(), frame)
            done.append(spoil(options.buttress, scratch))
    for comparison in done:
        print(f"dumps: {comparison.name}: {comparison.numbers} numbers, "
              f"{len(comparison.bad)} differ")
        for line in comparison.bad[:10]:
            print(f"  {line}")
    if any(comparison.bad for comparison in done):
        raise SystemExit("dumps: explain and the trainers differ")


if __name__ == "__main__":
    main()
