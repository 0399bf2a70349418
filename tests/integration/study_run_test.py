"""A study of two arms with the real programs; a run that is repeated gives the same result.

study_run_test.py BUTTRESS
"""

import json
import pathlib
import subprocess
import sys
import tempfile

BUTTRESS = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDY = """
name: tiny
run:
  steps: 5
  data: {prompts: "{data}/train.jsonl", held_out: "{data}/held_out.jsonl"}
  model: {path: "{data}/cold"}
  sampling: {group_size: 4, max_tokens: 2}
  batch: {prompts: 8}
  reward: {verifier: exact}
  optim: {lr: 1e-3}
  eval: {every: 1, prompts: 40, samples: 2, temperature: 1}
local:
  learner: {collective: local}
tasks:
  wrong:
    make:
      - python3 ROOT/studies/tasks/wrong_rule.py {data} {seed}
      - buttress new-model --out {data}/new --characters 0123456789>
        --layers 1 --hidden 32 --heads 2 --intermediate 64
      - buttress sft --model {data}/new --data {data}/sft.jsonl --out {data}/cold
        --steps 5 --batch 32 --lr 3e-3 --seed {seed}
    evaluations:
      pass_4: {prompts: "{data}/held_out.jsonl", completions: 4, limit: 40, k: 4}
arms:
  grpo: {}
  opposite: {run.algorithm.advantage: avspo, run.algorithm.avspo.mode: opposite}
seeds: {fresh: 1}
comparisons:
  - {claim: it gains, task: wrong, arm: opposite, against: grpo}
"""


def study(folder, command):
    done = subprocess.run(
        [BUTTRESS, "study", "--python", sys.executable, command, folder / "tiny.yaml",
         *(["--work", folder / "work", "--nice", "0"] if command == "run" else [])],
        capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tiny.yaml").write_text(STUDY.replace("ROOT", str(ROOT)))
        assert "2 of 2" in study(folder, "run")
        assert "wrong opposite: seeds 1 of 1" in study(folder, "status")
        path = folder / "tiny/results/wrong/grpo.jsonl"
        first = json.loads(path.read_text())
        path.unlink()
        study(folder, "run")
        second = json.loads(path.read_text())
        assert not list((folder / "work").glob("unfinished-*"))
    first.pop("seconds")
    second.pop("seconds")
    assert first == second, f"{first}\n{second}"
    assert len(first["curve"]["step"]) == 5 and first["endpoints"]["tokens"] > 0, first
    assert {"accuracy", "cold", "pass_4", "acr_100"} <= set(first["endpoints"]), first


main()
