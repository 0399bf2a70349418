"""Compares `buttress advantages` with the formulas of TRL and verl (run.sh).

Each group-wise formula sees every batch, each batch-wise one a share of them. A batch has 2 to 8
groups of 2 to 16 completions with 1 to 12 tokens. Rewards are 0 or 1, +-1, tenths, or normal; one
group in four is constant. For TRL a tenth of the completions have no reward. The peers run in
float64, where only the formula can differ, and for every ninth batch in float32 as well, as they do
in use.
"""
import argparse
import json
import subprocess
import sys

import numpy as np
import torch

import peers


def make_batch(rng, identity):
    size = int(rng.choice([2, 4, 8, 16]))
    groups = int(rng.integers(2, 9))
    kind = identity % 4
    rewards = {
        0: lambda s: rng.integers(0, 2, s).astype(float),
        1: lambda s: 2.0 * rng.integers(0, 2, s) - 1, 2: lambda s: rng.integers(0, 11, s) / 10,
        3: lambda s: rng.normal(size=s)
    }[kind]((groups, size))
    for k in range(groups):
        if rng.random() < 0.25:
            rewards[k] = rewards[k, 0]
    # Numbers that float32 holds, so that both runs see the same rewards.
    rewards = rewards.astype(np.float32).astype(np.float64)
    parts = np.stack([rewards, rng.integers(0, 2, (groups, size)).astype(float)], axis=-1)
    lengths = rng.integers(1, 13, (groups, size))
    missing = rng.random((groups, size)) < 0.1
    return {
        "identity": identity, "rewards": rewards, "parts": parts, "lengths": lengths,
        "missing": missing, "size": size
    }


def dtypes_of(batch):
    return (torch.float64, torch.float32) if batch["identity"] % 9 == 0 else (torch.float64,)


def lines_of(batch, parts=False, missing=False):
    for k, rewards in enumerate(batch["rewards"]):
        values = [
            None if missing and gone else float(r) for r, gone in zip(rewards, batch["missing"][k])
        ]
        group = {"id": k, "rewards": values, "lengths": batch["lengths"][k].tolist()}
        if parts:
            group["components"] = batch["parts"][k].tolist()
        yield json.dumps(group)


def ours(buttress, lines, settings):
    command = [buttress, "advantages", "-", "--json"
              ] + [x for s in settings for x in ("--set", f"run.algorithm.{s}")]
    out = subprocess.run(command,
                         input="\n".join(lines),
                         capture_output=True,
                         text=True,
                         check=True).stdout.splitlines()
    rows = [json.loads(line) for line in out]
    return [r["advantages"] for r in rows[:-1]], [r["collapse"] for r in rows[:-1]]


class Verl:
    def __init__(self, core):
        self.core = core

    def tensors(self, batch, dtype, values=None):
        lengths = torch.tensor(batch["lengths"].reshape(-1))
        mask = (torch.arange(12)[None] < lengths[:, None]).to(dtype)
        scores = torch.zeros(len(lengths), 12, dtype=dtype)
        flat = torch.tensor((batch["rewards"] if values is None else values).reshape(-1),
                            dtype=dtype)
        scores[torch.arange(len(lengths)), lengths - 1] = flat
        index = np.repeat(np.arange(len(batch["rewards"])), batch["size"]).astype(str)
        return scores, mask, index, lengths

    def run(self, name, batch, dtype, **extra):
        scores, mask, index, lengths = self.tensors(batch, dtype)
        config = peers.types.SimpleNamespace(
            gamma=1.0,
            get=lambda key, default=None: {"norm_adv_by_std_in_grpo": True}.get(key, default))
        arguments = {"token_level_rewards": scores, "response_mask": mask, "config": config}
        if name != "reinforce_plus_plus_outcome_advantage":
            arguments["index"] = index
        arguments.update(extra)
        if name == "gdpo_outcome_advantage":
            keys = [f"part{i}" for i in range(batch["parts"].shape[-1])]
            arguments["config"] = {"gdpo_reward_keys": keys}
            arguments["non_tensor_batch"] = {
                key: batch["parts"][..., i].reshape(-1) for i, key in enumerate(keys)
            }
            arguments["batch"] = {
                "prompts": torch.zeros(len(lengths), 1), "attention_mask": torch.cat(
                    [torch.ones(len(lengths), 1, dtype=torch.long),
                     mask.long()], 1)
            }
        advantages = getattr(self.core, "compute_" + name)(**arguments)[0]
        return (advantages[torch.arange(len(lengths)),
                           0]).double().numpy().reshape(batch["rewards"].shape)


# Differences besides the order of additions, and their bounds in float64; 1e-12 without an entry.
INEXACT_GDPO = "verl gdpo, components in tenths or normal"
NAMED = {
    "verl grpo_vectorized": ("group_mean_std computes in float32 whatever it gets", 1e-3),
    "verl reinforce_plus_plus": ("masked_mean divides by tokens + 1e-8", 1e-7),
    "verl reinforce_plus_plus_baseline": ("masked_mean divides by tokens + 1e-8", 1e-7),
    "verl gpg": ("alpha = N / nonzero is a float32 number", 1e-6), "verl gdpo, components 0, 1, -1":
        ("components become float32; where they cancel, whitening multiplies that rounding by 1e4",
         1e-2), INEXACT_GDPO:
             ("the same, and constant components in tenths get an advantage from rounding", 1.0),
    "trl scale_rewards=group": ("nanstd's n / (n - 1) is a float32 number", 1e-6),
}


class Comparison:
    def __init__(self, name, setting):
        self.name, self.setting = name, setting
        self.why, self.bound = NAMED.get(name, ("", 1e-12))
        self.batches = self.completions = 0
        self.worst = {torch.float64: 0.0, torch.float32: 0.0}
        self.phantom = 0.0  # their largest advantage in a constant group where ours is 0, float32

    def add(self, mine, theirs, dtype, rewards):
        mine = np.array(mine, dtype=float).reshape(theirs.shape)
        constant = np.nanmax(rewards, axis=1) == np.nanmin(rewards, axis=1)
        silent = constant & (mine == 0).all(axis=1)
        difference = np.abs(mine - theirs) / np.maximum(1.0, np.abs(mine))
        if dtype == torch.float32 and silent.any():
            self.phantom = max(self.phantom, float(np.abs(theirs[silent]).max()))
        counted = difference[~silent]
        if counted.size:
            self.worst[dtype] = max(self.worst[dtype], float(counted.max()))
        if dtype == torch.float64:
            self.batches += 1
            self.completions += theirs.size


GROUPWISE = [  # (name, verl's function, its further arguments, our settings)
    ("verl grpo", "grpo_outcome_advantage", {}, []),
    ("verl grpo without std (Dr. GRPO)", "grpo_outcome_advantage",
     {"norm_adv_by_std_in_grpo": False}, ["advantage=dr_grpo"]),
    ("verl grpo_vectorized", "grpo_vectorized_outcome_advantage", {}, []),
    ("verl rloo", "rloo_outcome_advantage", {}, ["advantage=rloo"]),
    ("verl rloo_vectorized", "rloo_vectorized_outcome_advantage", {}, ["advantage=rloo"]),
    ("verl opo", "opo_outcome_advantage", {}, ["advantage=opo"]),
    ("verl grpo_passk", "grpo_passk_outcome_advantage", {}, ["advantage=pass_k"]),
]
BATCHWISE = [("verl reinforce_plus_plus", "reinforce_plus_plus_outcome_advantage", {},
              ["advantage=reinforce_pp"]),
             ("verl reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline_outcome_advantage",
              {}, ["advantage=reinforce_pp_baseline"]),
             ("verl gpg", "gpg_outcome_advantage", {}, ["advantage=gpg"]),
             ("verl gdpo, components 0, 1, -1", "gdpo_outcome_advantage", {}, ["advantage=gdpo"]),]
TRL = [("trl scale_rewards=group", "group", ["eps=1e-4"]),
       ("trl scale_rewards=none", "none", ["advantage=dr_grpo"])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--buttress", required=True)
    parser.add_argument("--verl", required=True)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("versions", peers.versions(options.verl))
    verl, trl = Verl(peers.load_verl(options.verl)), peers.load_trl()
    rng = np.random.default_rng(options.seed)
    comparisons = {
        name: Comparison(name, " ".join(setting) or "defaults")
        for name, *_, setting in GROUPWISE + BATCHWISE + TRL
    }
    comparisons[INEXACT_GDPO] = Comparison(INEXACT_GDPO, "advantage=gdpo")
    zero_std = {"equal": 0, "differs": 0}
    for begin in range(0, options.batches, 500):
        batches = [make_batch(rng, i) for i in range(begin, min(options.batches, begin + 500))]
        lines = [line for batch in batches for line in lines_of(batch)]
        mine = {}
        for name, function, extra, setting in GROUPWISE:
            key = tuple(setting)
            if key not in mine:
                mine[key] = iter(ours(options.buttress, lines, setting)[0])
                mine[key] = [[next(mine[key]) for _ in batch["rewards"]] for batch in batches]
            for batch, advantages in zip(batches, mine[key]):
                for dtype in dtypes_of(batch):
                    comparisons[name].add(advantages, verl.run(function, batch, dtype, **extra),
                                          dtype, batch["rewards"])
        gaps = [line for batch in batches for line in lines_of(batch, missing=True)]
        for name, scale, setting in TRL:
            advantages, classes = ours(options.buttress, gaps, setting)
            at = 0
            for batch in batches:
                count = len(batch["rewards"])
                rewards = np.where(batch["missing"], np.nan, batch["rewards"])
                judged = (~batch["missing"]).sum(
                    axis=1) >= 2  # two values at least: with one there is no deviation
                for dtype in dtypes_of(batch):
                    theirs, is_zero = trl(torch.tensor(rewards.reshape(-1, 1), dtype=dtype),
                                          batch["size"], [1.0], scale)
                    theirs = theirs.double().numpy().reshape(rewards.shape)
                    if judged.any():
                        comparisons[name].add(
                            np.array(advantages[at:at + count])[judged], theirs[judged], dtype,
                            rewards[judged])
                if scale == "group":
                    is_zero = trl(torch.tensor(rewards.reshape(-1, 1), dtype=torch.float32),
                                  batch["size"], [1.0], scale)[1].reshape(rewards.shape)[:,
                                                                                         0].numpy()
                    for k in np.nonzero(judged)[0]:
                        zero_std["equal" if bool(is_zero[k]) == (
                            classes[at + k] != "mixed") else "differs"] += 1
                at += count
        for i, batch in enumerate(batches):
            name, function, extra, setting = BATCHWISE[
                (i // 4) % len(BATCHWISE)]  # every kind of reward for each
            advantages, _ = ours(options.buttress, lines_of(batch, parts="gdpo" in name), setting)
            name = INEXACT_GDPO if "gdpo" in name and i % 4 >= 2 else name
            for dtype in dtypes_of(batch):
                comparisons[name].add(advantages, verl.run(function, batch, dtype, **extra), dtype,
                                      batch["rewards"])
        print(f"{begin + len(batches)} batches", file=sys.stderr, flush=True)
    print(
        "| formula of | settings here | batches | completions | largest difference, float64 "
        "| float32 | peer's largest advantage in a constant group, float32 | what differs |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for c in comparisons.values():
        print(
            f"| {c.name} | `{c.setting}` | {c.batches} | {c.completions} "
            f"| {c.worst[torch.float64]:.1e} | {c.worst[torch.float32]:.1e} "
            f"| {c.phantom:.1e} | {c.why} |"
        )
    print(
        "\nTRL's test of zero deviation in float32 (frac_reward_zero_std) against the class: "
        f"{zero_std['equal']} equal, {zero_std['differs']} differ"
    )
    failures = [
        f"{c.name}: {c.worst[torch.float64]:.1e}, at most {c.bound:.0e}"
        for c in comparisons.values() if not c.worst[torch.float64] <= c.bound
    ]
    if failures:
        raise SystemExit("further apart in float64 than named: " + "; ".join(failures))


if __name__ == "__main__":
    main()
