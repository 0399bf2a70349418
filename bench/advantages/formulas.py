"""The estimators in plain NumPy or PyTorch, on whole arrays: rewards r [K, G].

The code is the same for both libraries except for the functions that they name differently; `xp` is
numpy or torch. Each function takes the batch and returns advantages [K, G]. Constant groups are
left to eps, as the peers do, where Buttress tests the range of the rewards.
"""
import math


class Arrays:
    """Functions that NumPy and PyTorch name differently."""

    def __init__(self, xp):
        self.xp, self.torch = xp, xp.__name__ == "torch"

    def mean(self, x):
        return x.mean(dim=1, keepdim=True) if self.torch else x.mean(axis=1, keepdims=True)

    def std(self, x, ddof=1):
        return x.std(dim=1, keepdim=True, correction=ddof) if self.torch else x.std(
            axis=1, keepdims=True, ddof=ddof)

    def total(self, x):
        return x.sum(dim=1, keepdim=True) if self.torch else x.sum(axis=1, keepdims=True)

    def high(self, x):
        return x.amax(dim=1, keepdim=True) if self.torch else x.max(axis=1, keepdims=True)

    def low(self, x):
        return x.amin(dim=1, keepdim=True) if self.torch else x.min(axis=1, keepdims=True)

    def full(self, like, value):
        return self.xp.full_like(like, value)

    def normal(self, x):
        return self.xp.randn_like(x) if self.torch else self.xp.random.standard_normal(x.shape)

    def column(self, parts, c):
        return parts[:, :, c]

    def as_column(self, x):
        return x[:, None]

    def top_two(self, x):
        if self.torch:
            best = x.topk(2, dim=1)
            return best.values[:, :1], best.values[:, 1:], best.indices[:, :1]
        order = self.xp.partition(x, -2, axis=1)[:, -2:]
        return order[:, 1:], order[:, :1], x.argmax(axis=1)[:, None]

    def one_hot(self, x, index, values):
        out = self.xp.zeros_like(x)
        if self.torch:
            return out.scatter_(1, index, values)
        self.xp.put_along_axis(out, index, values, axis=1)
        return out


EPS = 1e-6


def grpo(a, b, eps=EPS):
    return (b.r - a.mean(b.r)) / (a.std(b.r) + eps)


def dr_grpo(a, b):
    return b.r - a.mean(b.r)


def rloo(a, b):
    n = b.r.shape[1]
    return (b.r - a.mean(b.r)) * (n / (n - 1))


def opo(a, b):
    return b.r - a.total(b.lengths * b.r) / a.total(b.lengths)


def whiten(b, x):
    tokens = b.lengths.sum()
    mean = (b.lengths * x).sum() / tokens
    variance = (b.lengths * (x - mean) ** 2).sum() / (tokens - 1)
    return (x - mean) / (variance + 1e-8) ** 0.5


def reinforce_pp(a, b):
    return whiten(b, b.r)


def reinforce_pp_baseline(a, b):
    return whiten(b, b.r - a.mean(b.r))


def gpg(a, b):
    return (b.r - a.mean(b.r)) * (math.prod(b.r.shape) / float((b.r != 0).sum()))


def pass_k(a, b):
    first, second, index = a.top_two(b.r)
    return a.one_hot(b.r, index, (first - second) / (a.std(b.r) + EPS))


def gdpo(a, b):
    total = 0
    for c in range(2):
        part = a.column(b.components, c)
        total = total + (part - a.mean(part)) / (a.std(part) + EPS)
    return whiten(b, total)


def among(a, b, weight, mean, variance, ddof=1, eps=EPS):
    """GRPO among virtual rewards of this weight, mean and variance."""
    n = b.r.shape[1]
    own = a.mean(b.r)
    both = (n * own + weight * mean) / (n + weight)
    squares = a.total(
        (b.r - own) ** 2) + n * (own - both) ** 2 + weight * (variance + (mean - both) ** 2)
    return (b.r - both) / ((squares / (n + weight - ddof)) ** 0.5 + eps)


def ngrpo(a, b):
    return among(a, b, 1, 1.0, 0.0)


def constant(a, b):
    high, low = a.high(b.r), a.low(b.r)
    return high == low, high


def rl_zvp(a, b):
    same, high = constant(a, b)
    scale = a.xp.where(same, 0.2 * high - 0.1, a.full(high, 0.0)) + 0 * b.r
    return grpo(a, b), scale


def w_reinforce(a, b):
    return a.xp.where(b.r == 1, a.full(b.r, 0.1), a.full(b.r, -1.0))


def reinforce_rej(a, b):
    same, _ = constant(a, b)
    return a.xp.where(same, a.full(b.r, 0.0), b.r)


def raft(a, b):
    return b.r.clip(0, None)


def a_grae(a, b):
    p, omega = a.mean(b.r), b.r.mean()
    inside = (p > 0) & (p < 1)
    safe = a.xp.where(inside, p, a.full(p, 0.5))
    advantages = grpo(a, b) * (omega / (2 * safe ** 0.5) + (1 - omega) / (2 * (1 - safe) ** 0.5))
    return a.xp.where(advantages > 0, advantages * min(1.0, float(omega)), advantages)


def batch(a, b, formula):
    """The work of ComputeAdvantages: checked rewards, collapse classes, checked advantages."""
    assert a.xp.isfinite(b.r).all()
    high, low = a.high(b.r), a.low(b.r)
    same = high == low
    counts = [int(x.sum()) for x in (same & (high == 1), same & (high == 0), same, ~same)]
    out = formula(a, b)
    assert a.xp.isfinite(out[0] if isinstance(out, tuple) else out).all()
    return out, same, counts


def gate(rate, threshold=0.3, slope=5.0):
    return min(1.0, slope * (rate - threshold)) if rate > threshold else 0.0


def rate_of(same):
    return float(same.sum()) / same.shape[0]


def avspo_noise(a, b):
    rate = rate_of(a.std(b.r) ** 2 < 0.01)
    base, w = grpo(a, b, 1e-8), gate(rate)
    if w == 0:
        return base
    noisy = b.r + 0.1 * a.normal(b.r)
    return (1 - w) * base + w * (noisy - a.mean(noisy)) / (a.std(noisy) + 1e-8)


def avspo_opposite(a, b):
    same, high = constant(a, b)
    base, w = grpo(a, b), gate(rate_of(same))
    return a.xp.where(same, (1 - w) * base + w * among(a, b, 1, 1 - high, 0.0), base)


def avspo_ladder(a, b):
    same, high = constant(a, b)
    base, rate = grpo(a, b), rate_of(same)
    if rate <= 0.5:
        return base
    n = b.r.shape[1]
    size = max(1, min(n, math.ceil(n * rate ** 0.5)))
    top = a.xp.where(high > 0, high, a.full(high, 0.1))
    virtual = among(a, b, size,
                    top * (size + 1) / (2 * size),
                    top ** 2 * (size * size - 1) / (12 * size * size))
    return a.xp.where(same, virtual, base)


def avspo_prior(a, b):
    same, high = constant(a, b)
    base, n = grpo(a, b), b.r.shape[1]
    m, count = a.as_column(b.correct / b.scored), a.as_column(b.scored)
    w = gate(rate_of(same)) * count / (count + n)
    return a.xp.where(same, (1 - w) * base + w * among(a, b, 1, m, m * (1 - m)), base)
