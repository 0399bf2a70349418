"""A stand-in for the programs of a build: `buttress launch` writes the measurements of a run whose
accuracy is a function of its settings and its seed, at once or after a pause."""

import json
import pathlib
import random
import sys
import time

PROGRAM = """#!{python}
import sys
sys.path.insert(0, {folder!r})
import fake_build
fake_build.BIAS = {bias}
sys.exit(fake_build.main(sys.argv[1:]))
"""
BIAS = 0  # what is added to each accuracy of a run


def write_build(folder, bias=0):
    folder.mkdir(exist_ok=True)
    program = folder / "buttress"
    program.write_text(PROGRAM.format(
        python=sys.executable, folder=str(pathlib.Path(__file__).parent), bias=bias))
    program.chmod(0o755)
    for name in ("coordinator", "learner", "rollout_worker"):
        (folder / name).write_text(f"{name} {bias}")


def launch(path, _, *origin):
    import yaml  # here, so that the other commands start at once

    config = yaml.safe_load(pathlib.Path(path).read_text())
    run, out = config["run"], pathlib.Path(config["local"]["out"])
    start = json.loads((pathlib.Path(run["model"]["path"]) / "start.json").read_text())
    out.mkdir()
    time.sleep(float(run.get("pause", 0)))
    if run.get("fails"):
        print("the start model is damaged")
        return 4
    noise = random.Random(f"{run['seed']} {run['algorithm']}")
    gain = run.get("gain", 0) - abs(float(run["optim"]["lr"]) - 2e-4) * 100
    steps = [{"step": step, "acr": 0.5, "entropy": 1.0, "drawn": {"tokens": 100}}
             for step in range(1, run["steps"] + 1)]
    rows = [{"step": step, "accuracy": start + gain + noise.gauss(0, 0.01) + BIAS}
            for step in range(run["eval"]["every"], run["steps"] + 1, run["eval"]["every"])]
    if origin:  # --from OUT@STEP
        folder, step = origin[1].rsplit("@", 1)
        if int(step) % int((pathlib.Path(folder) / "interval").read_text()):
            return 2
        steps, rows = ([row for row in of if row["step"] > int(step)] for of in (steps, rows))
    for name, lines in (("steps", steps), ("eval", rows)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "versions.json").write_text(json.dumps({"starts": [{"buttress": {"commit": "abc"}}]}))
    (out / "interval").write_text(str(run.get("checkpoint_interval", 5)))
    (out / "model").mkdir()
    return 0


def main(arguments):
    command, *rest = arguments
    if command == "launch":
        return launch(*rest)
    if command == "start":  # makes a start model: FOLDER SEED
        folder = pathlib.Path(rest[0])
        folder.mkdir()
        (folder / "start.json").write_text(str(0.2 + random.Random(rest[1]).random() / 10))
    if command == "eval":
        options = dict(zip(rest[::2], rest[1::2]))
        out = pathlib.Path(rest[rest.index("--out") + 1])
        out.write_text(json.dumps({"pass_at_k": {options["--k"]: {"mean": 0.25}}}))
    return 0
