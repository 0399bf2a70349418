"""Writes peer_advantages.json: advantages of random batches by the code of verl, TRL, A-GRAE and
AVSPO, computed in float64.

    PEERS/bin/python make_peer_advantages.py PEERS/verl A_GRAE AVSPO > peer_advantages.json

PEERS is what tests/oracles/peers.sh prints. A_GRAE is a checkout of github.com/Yu7-code/A-GRAE at
5f129ef, AVSPO one of github.com/hexixiang/ACR at ca40ccf. WITHOUT_COUNTERPART names the estimators
of verl that no setting here gives; one with neither a case nor a line there is an error. Of gae the
recorded one has a critic that values every token alike. TRL's scale_rewards="batch" and
normalize_then_sum divide by a deviation over the batch, which no estimator here does.
"""

import ast
import json
import pathlib
import sys
import types
from collections import defaultdict

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "oracles" / "estimators"))
import compare  # noqa: E402
import peers  # noqa: E402

SEED, BATCHES = 11, 200
WITHOUT_COUNTERPART = {
    "remax": "its baseline is the reward of a greedy completion, which is not sampled here",
    "optimal_token_baseline": "weighs by the sum of squares of a token's whole distribution",
    "tir_optimal_token_baseline": "the same over several turns",
}


def draw(rng, identity):
    """2 to 4 groups of one size. One batch in five has rewards of one kind only: all 0 or all 1."""
    size, groups = int(rng.choice([2, 3, 4, 6, 8])), int(rng.integers(2, 5))
    rewards = {
        0: lambda s: rng.integers(0, 2, s).astype(float),
        1: lambda s: (rng.random(s) < rng.random((s[0], 1))).astype(float),
        2: lambda s: 2.0 * rng.integers(0, 2, s) - 1, 3: lambda s: rng.integers(0, 11, s) / 10,
        4: lambda s: np.round(rng.normal(size=s) * (1000 if identity % 2 else 0.01), 3)
    }[identity % 5]((groups, size))
    for k in range(groups):
        if rng.random() < 0.25:
            rewards[k] = rewards[k, 0]
    if identity % 25 in (0, 1):
        rewards[:] = identity % 25
    rewards = rewards.astype(np.float32).astype(np.float64)
    parts = np.stack([rewards, rng.integers(0, 2, rewards.shape).astype(float)], axis=-1)
    return {"identity": identity, "rewards": rewards, "parts": parts, "size": size,
            "lengths": rng.integers(1, 13, rewards.shape),
            "missing": rng.random(rewards.shape) < 0.1}


def is_binary(batch):
    return bool(np.isin(batch["rewards"], (0.0, 1.0)).all())


def load_a_grae(checkout):
    """compute_grpo_outcome_advantage with the weights of A-GRAE."""
    path = pathlib.Path(checkout) / "verl/trainer/ppo/core_algos.py"
    function = next(node for node in ast.parse(path.read_text()).body
                    if getattr(node, "name", "") == "compute_grpo_outcome_advantage")
    scope = {"torch": torch, "defaultdict": defaultdict, "print": lambda *_: None}
    exec(compile(ast.Module([function], []), str(path), "exec"), scope)

    def advantages(batch):
        count = batch["rewards"].size
        index = np.repeat(np.arange(len(batch["rewards"])), batch["size"])
        out = scope["compute_grpo_outcome_advantage"](
            torch.tensor(batch["rewards"].reshape(-1, 1)), torch.ones(count, 1), index,
            grpo_weight=2.0)[0]
        return out[:, 0].double().numpy().reshape(batch["rewards"].shape)
    return advantages


def load_avspo(checkout):
    """The statements of its GRPOTrainer from the means of groups to the division."""
    path = pathlib.Path(checkout) / "trl_scope/trainer/grpo_trainer.py"
    method = next(node for node in ast.walk(ast.parse(path.read_text()))
                  if getattr(node, "name", "") == "_generate_and_score_completions")
    texts = [ast.unparse(statement) for statement in method.body]
    first = next(i for i, text in enumerate(texts) if text.startswith("mean_grouped_rewards ="))
    last = next(i for i, text in enumerate(texts) if text.startswith("is_std_zero ="))
    block = compile(ast.Module(method.body[first:last + 2], []), str(path), "exec")

    def advantages(batch):
        trainer = types.SimpleNamespace(num_generations=batch["size"], scale_rewards="group")
        names = {"torch": torch, "self": trainer,
                 "rewards": torch.tensor(batch["rewards"].reshape(-1))}
        exec(block, names)
        return names["advantages"].numpy().reshape(batch["rewards"].shape)
    return advantages


def verl_cases(verl):
    for name, function, extra, settings in compare.GROUPWISE + compare.BATCHWISE:
        def advantages(batch, function=function, extra=extra):
            return verl.run(function, batch, torch.float64, **extra)
        why, tolerance = compare.NAMED.get(name, ("", 1e-5))
        whole = lambda _: True  # noqa: E731
        if name.startswith(("verl gdpo", "verl grpo_vectorized")):
            why += "; in groups of equal tenths it gives rounding an advantage: left out"
            whole = lambda b: b["identity"] % 5 < 3  # noqa: E731
        yield name, settings, max(tolerance, 1e-5), why, advantages, whole, False


    def gae(batch):
        scores, mask, _, lengths = verl.tensors(batch, torch.float64)
        advantages = verl.core.compute_gae_advantage_return(
            scores, torch.full_like(scores, 0.25), mask, gamma=1.0, lam=1.0)[0]
        return advantages[torch.arange(len(lengths)), 0].numpy().reshape(batch["rewards"].shape)
    yield ("verl gae, gamma 1, lambda 1, every value 0.25", ["advantage=reinforce_pp"], 1e-5,
           "masked_mean divides by tokens + 1e-8", gae, lambda _: True, False)


def check_complete(verl):
    """Fails where verl has an estimator without a case that WITHOUT_COUNTERPART does not name."""
    used = {f"compute_{row[1]}" for row in compare.GROUPWISE + compare.BATCHWISE}
    missing = {str(getattr(name, "value", name)) for name, function in
               verl.core.ADV_ESTIMATOR_REGISTRY.items() if function.__name__ not in used} - {"gae"}
    assert missing == set(WITHOUT_COUNTERPART), sorted(missing ^ set(WITHOUT_COUNTERPART))


def trl_cases(trl):
    for name, scale, settings in compare.TRL:
        def advantages(batch, scale=scale):
            rewards = np.where(batch["missing"], np.nan, batch["rewards"])
            return trl(torch.tensor(rewards.reshape(-1, 1)), batch["size"], [1.0],
                       scale)[0].numpy().reshape(rewards.shape)
        # One reward of a group alone has no deviation: TRL's is 0 / 0.
        two = lambda b: bool(((~b["missing"]).sum(axis=1) >= 2).all())  # noqa: E731
        yield name, settings, 1e-5, "", advantages, two, True


def released_cases(a_grae, avspo):
    yield ("a_grae", ["advantage=a_grae", "a_grae.form=released"], 1e-4,
           "its means and deviations are float32 numbers", a_grae, is_binary, False)

    def alike(batch):
        constant = [len(set(group)) == 1 for group in batch["rewards"].tolist()]
        uniform = len(set(batch["rewards"].reshape(-1).tolist())) == 1
        return is_binary(batch) and (uniform or np.mean(constant) <= 0.3)
    yield ("avspo", ["advantage=avspo", "avspo.mode=opposite", "eps=1e-4"], 2e-4,
           "it acts where all rewards of a batch are equal, and adds 1e-4 to the deviation; the "
           "mode adds 1e-6, and acts on each constant group from an ACR of 0.3 on, so batches "
           "between are left out", avspo, alike, False)


def shown(values):
    return [float(f"{value:.6g}") for value in values.reshape(-1)]


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    batches = [draw(rng, identity) for identity in range(BATCHES)]
    verl = compare.Verl(peers.load_verl(sys.argv[1]))
    check_complete(verl)
    cases = [*verl_cases(verl), *trl_cases(peers.load_trl()),
             *released_cases(load_a_grae(sys.argv[2]), load_avspo(sys.argv[3]))]
    print(json.dumps({"versions": peers.versions(sys.argv[1]), "seed": SEED})[:-1] + ",")
    print('"batches": [' + ",\n".join(json.dumps({
        "rewards": batch["rewards"].tolist(), "missing": batch["missing"].astype(int).tolist(),
        "parts": batch["parts"][..., 1].astype(int).tolist(), "lengths": batch["lengths"].tolist()
    }, separators=(",", ":")) for batch in batches) + "],")
    rows = []
    for name, settings, tolerance, differs, advantages, comparable, has_gaps in cases:
        rows.append(json.dumps({
            "name": name, "settings": [f"run.algorithm.{s}" for s in settings],
            "tolerance": tolerance, "differs": differs, "has_gaps": has_gaps, "advantages":
                [shown(advantages(b)) if comparable(b) else None for b in batches]
        }, separators=(",", ":")))
    print('"cases": [' + ",\n".join(rows) + "]}")


if __name__ == "__main__":
    main()
