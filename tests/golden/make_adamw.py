#!/usr/bin/env python3
"""Golden numbers of AdamW: pure Python in double precision, written from Loshchilov and Hutter,
"Decoupled weight decay regularization" (arXiv 1711.05101), Algorithm 2. Writes adamw.json beside
itself.

The parameters are a matrix (decayed) and a vector (not decayed); gradients of step t come from a
fixed formula. """

import json
import math
import pathlib

LR, BETA1, BETA2, EPS, DECAY, STEPS = 0.05, 0.9, 0.99, 1e-8, 0.1, 5


def gradient(t, i):
    return math.sin(1.7 * t + 0.9 * i) * (0.5 + i)


def run(values, decay):
    m = [0.0] * len(values)
    v = [0.0] * len(values)
    for t in range(1, STEPS + 1):
        for i, _ in enumerate(values):
            g = gradient(t, i)
            m[i] = BETA1 * m[i] + (1 - BETA1) * g
            v[i] = BETA2 * v[i] + (1 - BETA2) * g * g
            m_hat = m[i] / (1 - BETA1**t)
            v_hat = v[i] / (1 - BETA2**t)
            values[i] -= LR * decay * values[i]
            values[i] -= LR * m_hat / (math.sqrt(v_hat) + EPS)
    return {"values": values, "first": m, "second": v}


golden = {
    "lr": LR, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY, "steps": STEPS,
    "matrix": run([0.5, -1.0, 2.0, 0.25, 0.0, -0.125], DECAY), "vector": run([1.0, -2.0, 3.0], 0.0),
    "gradients": [[gradient(t, i) for i in range(6)] for t in range(1, STEPS + 1)],
}
path = pathlib.Path(__file__).with_name("adamw.json")
path.write_text(json.dumps(golden, indent=1) + "\n")
