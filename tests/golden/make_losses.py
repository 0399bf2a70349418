"""Writes losses.json: a batch for each case of tests/oracles/losses/cases.py.

Each has the loss and gradient that verl 0.9.1 or TRL 1.16.0 gives in float64. With PEERS, the
folder that tests/oracles/peers.sh prints:
  PEERS/bin/python make_losses.py PEERS/verl > losses.json
"""
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "oracles" / "losses"))
import cases  # noqa: E402
import verl_module  # noqa: E402
from batches import draw, to_line  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

core, corr = verl_module.load(sys.argv[1])
rng = random.Random(7)
rows = []
for case in cases.verl_cases(core, corr, verl_module.ActorConfig) + cases.trl_cases(GRPOTrainer):
    batch = draw(rng, case)
    lp = batch.lp.clone().requires_grad_(True)
    loss = case.theirs(batch, lp)
    loss.backward()
    rows.append({
        "name": case.name, "input": json.loads(to_line(case, batch)),
        "loss": round(loss.item(), 9) if case.values else None,
        "gradient": [round(g, 9) for g in lp.grad[batch.mask.bool()].tolist()]
    })
print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")
