"""Random batches, and their lines for loss_oracle."""
import json
import types

import torch


def float32(x):
    """The nearest float32, as a double."""
    return torch.tensor(x, dtype=torch.float32).double()


def draw(rng, case):
    while not (batch := draw_any(
            rng, case)) or case.name == "verl kl_cov" and not has_clear_marks(batch):
        pass
    return batch


def draw_any(rng, case, longest=8, most=6):
    """2 to `most` completions of 1 to `longest` tokens, padded to [B, T]."""
    lengths = [rng.randint(1, longest) for _ in range(rng.randint(2, most))]
    advantages = [rng.gauss(0, 1) if rng.random() > 0.1 else 0.0 for _ in lengths]
    tokens = [[(t := -0.02 - 3 * rng.random(), t + rng.gauss(0, 0.4), t + rng.gauss(0, 0.5),
                t + rng.gauss(0, 0.5)) for _ in range(n)] for n in lengths]
    width = max(lengths)
    lp, old, sampler, ref = (torch.stack([
        torch.cat([
            float32([min(token[i], -0.01) for token in row]),
            torch.zeros(width - len(row)).double()
        ]) for row in tokens
    ]) for i in range(4))
    mask = torch.tensor([[1.0] * n + [0.0] * (width - n) for n in lengths]).double()
    rows = float32(advantages)
    return types.SimpleNamespace(lengths=lengths,
                                 lp=lp,
                                 old=old,
                                 sampler=lp if case.on_policy_sampler else sampler,
                                 ref=ref,
                                 mask=mask,
                                 rows=rows,
                                 advantages=rows[:, None].expand(-1, width).clone())


def has_clear_marks(batch):
    """Whether one token has the highest covariance, and it is above 0.

    Of equal covariances verl marks any, and Buttress marks all or none.
    """
    keep = batch.mask.bool()
    advantages, logprobs = batch.advantages[keep], batch.lp[keep]
    covariances = ((advantages - advantages.mean()) *
                   (logprobs - logprobs.mean())).sort(descending=True).values
    marked = max(1, int(len(covariances) * 0.1))
    return covariances[marked - 1] > 1e-9 and covariances[marked - 1] > covariances[marked] + 1e-9


def settings_of(case):
    return [
        f"run.algorithm.{key}={value}"
        for key, value in {"clip_high": 0.28, **case.settings}.items()
    ]


def to_line(case, batch):
    keep = batch.mask.bool()
    row = {
        "settings": settings_of(case), "lengths": batch.lengths, "advantages": batch.rows.tolist(),
        "logprobs": batch.lp[keep].tolist(), "sampler": batch.sampler[keep].tolist(),
        "old": batch.old[keep].tolist()
    }
    if "kl_coef" in case.settings:
        row["ref"] = batch.ref[keep].tolist()
    return json.dumps(row)
