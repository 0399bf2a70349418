"""Writes losses.json: 200 batches, and for each case of tests/oracles/losses/cases.py the loss and
gradient that verl 0.9.1 or TRL 1.16.0 gives for them in float64. With PEERS, the folder that
tests/oracles/peers.sh prints:

    PEERS/bin/python make_losses.py PEERS/verl > losses.json

In one batch of five the log-probs of the old policy are up to 6 nats away, so that ratios reach 400
and every clip and cap acts. cases.WITHOUT_COUNTERPART names the losses of verl and TRL that no
setting here gives; a loss that has neither a case nor a line there is an error.
"""
import json
import pathlib
import random
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "oracles" / "losses"))
import batches  # noqa: E402
import cases  # noqa: E402
import verl_module  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

SEED, BATCHES = 7, 200


def draw(rng, identity):
    """A batch whose numbers have four digits."""
    batch = batches.draw_any(rng, cases.Case("", {}, None), longest=4, most=3)
    if identity % 5 == 0:
        far = torch.tensor([[rng.uniform(-6, 6) for _ in row] for row in batch.old]).double()
        batch.old = (batch.lp + far).clamp(max=-0.01) * batch.mask
    for name in ("lp", "old", "sampler", "ref", "rows", "advantages"):
        setattr(batch, name, getattr(batch, name).mul(1e4).round().div(1e4))
    return batch


def shown(values):
    return [float(f"{value:.6g}") for value in values]


def answers(case, drawn):
    """The losses, and the gradients by batch; none where the case cannot be compared."""
    losses, gradients = [], []
    for batch in drawn:
        kept = batch.sampler
        if case.on_policy_sampler:
            batch.sampler = batch.lp
        lp = batch.lp.clone().requires_grad_(True)
        loss = case.theirs(batch, lp)
        if loss.requires_grad:
            loss.backward()
        gradient = torch.zeros_like(lp) if lp.grad is None else lp.grad
        comparable = case.name != "verl kl_cov" or batches.has_clear_marks(batch)
        batch.sampler = kept
        losses.append(shown([loss.item()])[0] if case.values else None)
        gradients.append(shown(gradient[batch.mask.bool()].tolist()) if comparable else None)
    return losses, gradients


def main():
    torch.set_num_threads(1)
    core, corr = verl_module.load(sys.argv[1])
    rng = random.Random(SEED)
    drawn = [draw(rng, identity) for identity in range(BATCHES)]
    recorded = []
    for batch in drawn:
        keep = batch.mask.bool()
        row = {"lengths": batch.lengths, "advantages": shown(batch.rows.tolist())}
        for key, values in (("logprobs", batch.lp), ("sampler", batch.sampler),
                            ("old", batch.old), ("ref", batch.ref)):
            row[key] = shown(values[keep].tolist())
        recorded.append(json.dumps(row, separators=(",", ":")))
    rows = []
    table = cases.verl_cases(core, corr, verl_module.ActorConfig) + cases.trl_cases(GRPOTrainer)
    cases.check_complete(core, GRPOTrainer, table)
    for case in table:
        losses, gradients = answers(case, drawn)
        rows.append(json.dumps({
            "name": case.name, "settings": batches.settings_of(case), "differs": case.why,
            "on_policy": case.on_policy_sampler, "losses": losses, "gradients": gradients
        }, separators=(",", ":")))
    versions = {"verl": "0.9.1", "trl": "1.16.0", "torch": torch.__version__}
    print(json.dumps({"versions": versions, "seed": SEED})[:-1] + ",")
    print('"batches": [' + ",\n".join(recorded) + "],")
    print('"cases": [' + ",\n".join(rows) + "]}")


if __name__ == "__main__":
    main()
