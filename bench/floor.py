"""The least time that a step needs on this machine: its matrix products at the rate of a large
product, and the bytes that it must move at the rate of a copy. Attention, sampling, norms, rewards
and everything between processes are left out, so that no program reaches the floor."""

import time

import torch

PROBE_SECONDS = 1.0
BYTES = {"float32": 4, "bfloat16": 2}


def best(work):
    """Shortest time of `work` within PROBE_SECONDS, at least three calls."""
    seconds, end = [], time.perf_counter() + PROBE_SECONDS
    while len(seconds) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def gemm_flops(dtype):
    """Operations per second of a product of square matrices."""
    size = 2048
    a, b = (torch.randn(size, size).to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * size**3 / best(lambda: torch.mm(a, b, out=out))


def memory_bytes():
    """Bytes per second that a copy reads and writes."""
    a = torch.zeros(1 << 28, dtype=torch.uint8)
    b = torch.ones_like(a)
    return 2 * a.numel() / best(lambda: b.copy_(a))


def parameters(shape):
    """The parameters of the blocks' matrices, and of the head (which is the embedding)."""
    width, head = shape["hidden"], shape["hidden"] // shape["heads"]
    attention = width * head * (2 * shape["heads"] + 2 * shape["kv_heads"])
    block = attention + 3 * width * shape["intermediate"]
    return shape["layers"] * block, shape["vocab"] * width


def seconds(shape, dtype, stochastic, load, group, prompt_tokens, gemm, memory):
    """The floor of generation and training of a step. Generation reads every matrix for each token
    of a completion, or multiplies with it, whichever takes longer; the prompts of a group are
    computed once. The optimizer reads and writes parameters and moments, and gradients in float32
    are written and read once."""
    blocks, head = parameters(shape)
    completions = load["groups"] * group
    scored = completions * load["tokens"]
    prompts = load["groups"] * prompt_tokens
    decode = load["tokens"] * max((blocks + head) * BYTES[dtype] / memory,
                                  2 * (blocks + head) * completions / gemm)
    prefill = 2 * blocks * prompts / gemm
    train = 6 * (blocks * (prompts + scored) + head * scored) / gemm
    state = 3 * BYTES[dtype] if stochastic or dtype == "float32" else 12 + BYTES[dtype]
    optimizer = (blocks + head) * (2 * state + 8) / memory
    return decode + prefill + train + optimizer
