"""Compares a whole GRPO step, from generation to updated weights, with TRL's GRPOTrainer. Both use
the same model, prompts of 64 tokens, groups of 8 completions with the same number of tokens, the
same precision of parameters and moments, and all cores. In bfloat16 Buttress rounds stochastically
and sums gradients in float32.

Buttress runs as `buttress launch`, whose coordinator, worker and learner wait for one another
(max_age 0). A step lasts from one version of the weights to the next; the first step of each run is
left out. Every completion is trained: rewards are all 0, and the virtual samples of AVSPO give the
completions advantages. TRL, which trains collapsed groups too, gets random rewards. Memory is the
peak of PSS over all processes of Buttress, and the peak RSS of TRL. The two run in turn, and the
median step counts. Probes before each round give the floor (floor.py), and the share of it that a
program reaches is the floor divided by its step."""

import json
import statistics
import subprocess
import sys
import tempfile
import os

import floor
import models
from memory import Peak
from report import Report, parser, progress

GROUP = 8
PRECISIONS = {"tiny": "fp32_master", "half": "stochastic"}
CASES = {"tiny": dict(groups=8, tokens=128, steps=6), "half": dict(groups=1, tokens=64, steps=4)}


def write_prompts(path, model, count):
    with open(path, "w") as file:
        for i, text in enumerate(models.prompts(model, count)):
            file.write(json.dumps({"id": str(i), "prompt": text, "answer": "none"}) + "\n")


def ours(case, model, prompts):
    load = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "run": {
                "steps": load["steps"], "checkpoint_interval": 1000000, "lease_ms": 600000,
                "data": {"prompts": prompts
                        }, "model": {"path": str(model), "dtype": models.DTYPES[case]},
                "sampling": {"group_size": GROUP, "max_tokens": load["tokens"]},
                "batch": {"prompts": load["groups"], "max_age": 0}, "reward": {"verifier": "exact"},
                "algorithm": {"advantage": "avspo",
                              "avspo": {"mode": "opposite"}},
                "optim": {"lr": 1e-5, "precision": PRECISIONS[case]},
            }, "local": {
                "out": f"{folder}/out",
                "worker": {"threads": os.cpu_count(),
                           "kv_cache_tokens": 32768}, "learner": {"threads": os.cpu_count()},
            },
        }
        with open(f"{folder}/run.yaml", "w") as file:
            json.dump(settings, file)  # JSON is YAML
        with open(f"{folder}/log", "w") as log:
            launch = subprocess.Popen([models.BIN / "buttress", "launch", f"{folder}/run.yaml"],
                                      stdout=log,
                                      stderr=log)
        peak = Peak(launch.pid)
        code = launch.wait()
        peak.close()
        if code != 0:
            raise SystemExit(open(f"{folder}/log").read()[-3000:])
        rows = [json.loads(line) for line in open(f"{folder}/out/steps.jsonl")]
    return rows, peak


def peer(case, model, prompts):
    load = CASES[case]
    command = [
        sys.executable, models.ROOT / "bench/step/trl_step.py", model, prompts,
        str(load["groups"] * GROUP),
        str(load["tokens"]),
        str(load["steps"]), models.DTYPES[case],
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    numbers = [float(line) for line in done.stdout.split()]
    return numbers[:-1], numbers[-1]


class Probes:
    """The fastest probes of the rounds, and the floor that they imply."""
    def __init__(self, case):
        self.case, self.gemm, self.memory = case, 0.0, 0.0

    def run(self):
        self.gemm = max(self.gemm, floor.gemm_flops(models.DTYPES[self.case]))
        self.memory = max(self.memory, floor.memory_bytes())

    def floor(self):
        return floor.seconds(models.SHAPES[self.case], models.DTYPES[self.case],
                             PRECISIONS[self.case] == "stochastic", CASES[self.case], GROUP,
                             models.PROMPT_TOKENS, self.gemm, self.memory)


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    options = options.parse_args()
    report = Report("step", options.json)
    for case in options.cases:
        load, model = CASES[case], models.folder(case)
        completions = load["groups"] * GROUP
        seconds, peer_seconds, pss, rss = [], [], 0.0, 0.0
        probes = Probes(case)
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as prompts:
            write_prompts(prompts.name, model, 64)
            for n in range(options.rounds):
                probes.run()
                rows, peak = ours(case, model, prompts.name)
                steps, peak_rss = peer(case, model, prompts.name)
                seconds += [row["seconds"]["step"] for row in rows[1:]]
                peer_seconds += steps[1:]
                pss, rss = max(pss, peak.pss), max(rss, peak_rss)
                sizes = {
                    name: round(size["pss"])
                    for name, size in peak.by_name.items()
                    if size["pss"] > 20
                }
                progress(f"{case}, round {n + 1}: {statistics.median(seconds):.2f} s a step, "
                         f"TRL {statistics.median(peer_seconds):.2f} s; PSS in MiB {sizes}")
        mine, theirs = statistics.median(seconds), statistics.median(peer_seconds)
        report.add(case, "s", mine, theirs, "trl", more_is_better=False)
        progress(f"{case}: GEMM {probes.gemm / 1e9:.0f} GFLOP/s, memory "
                 f"{probes.memory / 1e9:.1f} GB/s, floor {probes.floor():.2f} s a step")
        report.add(case,
                   "% of floor",
                   100 * probes.floor() / mine,
                   100 * probes.floor() / theirs,
                   "trl",
                   more_is_better=True)
        tokens = completions * load["tokens"]
        report.add(case, "tok/s", tokens / mine, tokens / theirs, "trl", more_is_better=True)
        report.add(case, "MiB", pss, rss, "trl", more_is_better=False)


main()
