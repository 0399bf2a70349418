"""Prints who names the cause of runs that went wrong: rldoctor or `buttress explain`.

compare.py --buttress PROGRAM --rldoctor PROGRAM

Both read the same runs: TRL trainings of a tiny model in which one fault is injected, by the log of
metrics (rldoctor) and by the completions (explain); and the published scenarios of rldoctor, which
are logs of metrics. Fails if explain misses an injected fault or that of a scenario, or finds one
in a healthy run.
"""

import argparse
import contextlib
import io
import json
import logging
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "dumps"))
import trl_run  # noqa: E402

STEPS, DEAD_FROM = 48, 24
# Each is a word to explain. A completion is right if it has one of those of its prompt.
SYMBOLS = "!#$%&()*+,-/:;<=>?@[]^_{|}~"
SOME = ("!", "#$", "%&", "()*", "+,", "-", "/:;", "<=")
dice = random.Random(1)


def mixed(completions, prompts, **_):
    return [float(any(c in SOME[int(prompt)] for c in text))
            for text, prompt in zip(completions, prompts)]


def easy(completions, **_):
    return [float(any(c not in "~}" for c in text)) for text in completions]


def hard(completions, **_):
    return [float("@" in text and "?" in text and text[-1:] == "!") for text in completions]


def dies(completions, prompts, trainer_state, **_):
    if trainer_state.global_step >= DEAD_FROM:
        return [0.0] * len(completions)
    return mixed(completions, prompts)


def mostly_fails(completions, prompts, **_):
    return [None if dice.random() < 0.75 else reward for reward in mixed(completions, prompts)]


def rounds(completions, **_):
    """Sums of tenths, of which float32 loses the end."""
    return [0.7 + 1e-7 * dice.randrange(3) for _ in completions]


RUNS = {  # name: reward function, settings of TRL, what explain may call it
    "nothing": (mixed, {}, ("nothing broken",)),
    "prompts too easy": (easy, {}, ("too easy",)),
    "prompts too hard": (hard, {}, ("too hard", "never right")),
    "verifier dies at half": (dies, {}, ("verifier constant", "against history")),
    "verifier fails on 3 of 4": (mostly_fails, {}, ("unscorable",)),
    "one text left": (mixed, {"temperature": 1e-4}, ("mode-collapsed", "duplicate samples")),
    "rewards of equal value, rounded": (rounds, {}, ("float noise",)),
}


SCENARIOS = {  # of rldoctor: the first cause that explain names
    "healthy": None, "entropy_collapse": "mode-collapsed", "saturated_groups": "too easy",
    "too_hard": "too hard", "reward_hacking": "reward without evaluation",
    "length_hacking": "reward without evaluation", "truncation": "truncated",
    "kl_blowup": "far from the reference", "clip_saturation": "mode-collapsed",
    "grad_spikes": "gradient spikes", "plateau": None, "format_domination": None
}


def rldoctor(program, log):
    out = subprocess.run([program, "diagnose", log, "--format", "json"], capture_output=True,
                         text=True)
    found = json.loads(out.stdout)["findings"]
    named = []
    for f in found:
        if f["severity"] in ("WARNING", "CRITICAL"):
            named.append(f["detector"].replace("_", " "))
            if f["detector"] == "advantage_collapse":  # says more in its first words
                named[-1] += f" ({re.split('[.:]', f['summary'])[0].lower()})"
    return ", ".join(named) or "nothing"


def explain(program, path):
    out = subprocess.run([program, "explain", path, "--json"], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout.splitlines()[-1])["summary"]


def injected(options, scratch):
    missed = []
    print("| injected into a run of TRL | rldoctor, from the metrics | explain, from the "
          "completions |\n|---|---|---|")
    for name, (reward, settings, expected) in RUNS.items():
        folder = scratch / name.replace(" ", "_")
        with contextlib.redirect_stdout(io.StringIO()):
            trl_run.train(folder, [reward], STEPS, map(str, range(len(SOME))), SYMBOLS,
                          max_completion_length=24, **settings)
        conclusion = explain(options.buttress, folder)["conclusion"]["name"]
        if conclusion not in expected:
            missed.append(f"{name}: {conclusion} instead of {' or '.join(expected)}")
        print(f"| {name} | {rldoctor(options.rldoctor, folder / 'trainer_state.json')} "
              f"| {conclusion} |", flush=True)
    return missed


def scenarios(options, scratch):
    python = pathlib.Path(options.rldoctor).with_name("python")
    code = ("import json, sys\nfrom rl_doctor import simulate\n"
            "for name in simulate.SCENARIOS:\n"
            "    with open(f'{sys.argv[1]}/{name}.jsonl', 'w') as file:\n"
            "        for row in simulate.simulate(name)[0]: print(json.dumps(row), file=file)\n")
    subprocess.run([python, "-c", code, scratch], check=True)
    missed = []
    print("\n| scenario of rldoctor, a log of metrics | rldoctor | explain |\n|---|---|---|")
    for log in sorted(scratch.glob("*.jsonl")):
        named = [cause["name"] for cause in explain(options.buttress, log)["causes"]]
        if next(iter(named), None) != SCENARIOS[log.stem]:
            missed.append(f"{log.stem}: {named} instead of {SCENARIOS[log.stem]}")
        print(f"| {log.stem.replace('_', ' ')} | {rldoctor(options.rldoctor, log)} "
              f"| {', '.join(named) or 'nothing'} |")
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--buttress", required=True)
    parser.add_argument("--rldoctor", required=True)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        missed = injected(options, scratch) + scenarios(options, scratch)
    if missed:
        raise SystemExit("post_mortems: " + "; ".join(missed))


if __name__ == "__main__":
    main()
