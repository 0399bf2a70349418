"""Writes advantages.json: golden vectors of lib/rl's estimators.

Plain Python in double precision, written from the papers and not from the C++:
  grpo       arXiv 2402.03300: (r - mean) / (std + eps); sample std as in verl and TRL
  dr_grpo    arXiv 2503.20783: r - mean
  avspo      noise: the pseudo-code of the project's brief; opposite: the released code of arXiv 2605.21125 (hexixiang/ACR), per group
  Philox     Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11; normals by Box-Muller
PRINTED holds six-digit numbers of the specification's tables, computed before and apart from this file; the script fails if it differs.
Run: python3 tests/golden/make_advantages.py
"""
import json
import math
import pathlib

A1, A4, A7 = [1.0] + [0.0] * 7, [1.0] * 4 + [0.0] * 4, [1.0] * 7 + [0.0]
B, C = [1.0, 0.0, 0.0, 1.0], [0.2, 0.5, 1.0, 0.0]
ONES, ZEROS = [1.0] * 8, [0.0] * 8


def std(values, ddof):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - ddof))


def normalize(rewards, kind, eps):
    """None marks an unscorable completion."""
    real = [r for r in rewards if r is not None]
    if len(real) < 2 or max(real) == min(real):
        return [0.0] * len(rewards)
    mean = math.fsum(real) / len(real)
    divisor = {"sample": lambda: std(real, 1) + eps, "population": lambda: std(real, 0) + eps, "none": lambda: 1.0}[kind]()
    return [0.0 if r is None else (r - mean) / divisor for r in rewards]


def collapse(rewards):
    real = [r for r in rewards if r is not None]
    if len(real) < 2:
        return "unscorable"
    if max(real) != min(real):
        return "mixed"
    return {1.0: "all_correct", 0.0: "all_wrong"}.get(real[0], "other_constant")


def acr(groups):
    classes = [c for c in map(collapse, groups) if c != "unscorable"]
    return sum(c != "mixed" for c in classes) / len(classes) if classes else 0.0


def weight(rate, threshold, slope):
    return min(1.0, slope * (rate - threshold)) if rate > threshold else 0.0


def philox_normal(seed, stream, index):
    mask = 0xFFFFFFFF
    c = [index & mask, index >> 32, stream & mask, stream >> 32]
    k0, k1 = seed & mask, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & mask, (p0 >> 32) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    unit = [((c[i] << 32 | c[i + 1]) >> 11) * 2.0**-53 for i in (0, 2)]
    return math.sqrt(-2.0 * math.log(1.0 - unit[0])) * math.cos(2.0 * math.pi * unit[1])


def opposite(groups, kind, eps, avspo, virtual_eps=1e-6):
    w = weight(acr(groups), avspo["acr_threshold"], avspo["slope"])
    out, weights = [], []
    for rewards in groups:
        real = normalize(rewards, kind, eps)
        other = {"all_correct": 0.0, "all_wrong": 1.0}.get(collapse(rewards))
        if w > 0 and other is not None:
            virtual = normalize(rewards + [other], "sample", virtual_eps)[:-1]
            real = [(1 - w) * a + w * v for a, v in zip(real, virtual)]
        out.append(real)
        weights.append(w if other is not None else 0.0)
    return out, weights


def noise(groups, avspo, key):
    scored = [[r for r in g if r is not None] for g in groups]
    variances = [std(g, 1) ** 2 for g in scored if len(g) > 1]
    rate = sum(v < avspo["variance_threshold"] for v in variances) / len(variances)
    w = weight(rate, avspo["acr_threshold"], avspo["slope"])
    out, weights, row = [], [], 0
    for rewards in groups:
        noisy = []
        for r in rewards:
            noisy.append(None if r is None else r + avspo["noise_std"] * philox_normal(*key, row))
            row += 1
        real, virtual = normalize(rewards, "sample", 1e-8), normalize(noisy, "sample", 1e-8)
        out.append([(1 - w) * a + w * v for a, v in zip(real, virtual)] if w > 0 else real)
        weights.append(w if collapse(rewards) != "unscorable" else 0.0)
    return out, weights


AVSPO = {"acr_threshold": 0.3, "slope": 5.0, "variance_threshold": 0.01, "noise_std": 0.1}
BINARY = [A1, A4, A7, B, C, ONES, ZEROS]
HALF = [A1, ONES, ZEROS, A4]                                   # ACR 0.5: weight 1
FIFTHS = [A1, ONES, ZEROS, A4, C]                              # ACR 0.4: weight 0.5
CALM = [A1, A4, A7, B, ZEROS]                                  # ACR 0.2: gate closed
MASKED = [[1.0, None, 0.0, 1.0], [None, 1.0, 1.0, 1.0], [0.0, None, None, 0.0], [1.0, None, None, None], [0.5] * 4]
KEY = [0x1234567890ABCDEF, 42]


def cases():
    for kind, eps in (("sample", 1e-6), ("sample", 1e-4), ("sample", 1e-9), ("population", 1e-6), ("none", 1e-6)):
        for groups in (BINARY, MASKED):
            yield "grpo", kind, eps, None, groups, [normalize(g, kind, eps) for g in groups], [0.0] * len(groups)
    yield "dr_grpo", "sample", 1e-6, None, BINARY, [normalize(g, "none", 0) for g in BINARY], [0.0] * len(BINARY)
    for groups in (HALF, FIFTHS, CALM, MASKED, [[1.0] * 4, [0.0] * 4], [[1.0] * 16, [0.0] * 16]):
        yield "avspo", "sample", 1e-6, dict(AVSPO, mode="opposite"), groups, *opposite(groups, "sample", 1e-6, AVSPO)
        yield "avspo", "sample", 1e-8, dict(AVSPO, mode="noise"), groups, *noise(groups, AVSPO, KEY)


def near(name, got, want):
    for g, w in zip(got, want, strict=True):
        assert abs(g - w) <= 6e-7, f"{name}: {g:.7f}, the specification prints {w}"


def check_printed():
    printed = {
        ("sample", 1e-6): [(2.474867, -.353552), (.935413, -.935413), (.353552, -2.474867), (.866024, -.866024)],
        ("sample", 1e-4): [(2.474174, -.353453), (.935239, -.935239), (.353453, -2.474174), (.865875, -.865875)],
        ("sample", 1e-9): [(2.474874, -.353553), (.935414, -.935414), (.353553, -2.474874), (.866025, -.866025)],
        ("population", 1e-6): [(2.645743, -.377963), (.999998, -.999998), (.377963, -2.645743), (.999998, -.999998)],
        ("none", 0): [(.875, -.125), (.5, -.5), (.125, -.875), (.5, -.5)],
    }
    for (kind, eps), rows in printed.items():
        for group, row in zip((A1, A4, A7, B), rows, strict=True):
            got = normalize(group, kind, eps)
            near(f"{kind} {eps}", (got[group.index(1.0)], got[group.index(0.0)]), row)
    near("C sample 1e-6", normalize(C, "sample", 1e-6), (-.517320, .172440, 1.322040, -.977160))
    near("C sample 1e-4", normalize(C, "sample", 1e-4), (-.517202, .172401, 1.321739, -.976938))
    near("C population", normalize(C, "population", 1e-6), (-.597349, .199116, 1.526560, -1.128327))
    for size, eps, value in ((8, 0.0, .333333), (8, 1e-4, .333233), (4, 1e-4, .447114), (16, 1e-4, .242436)):
        got, _ = opposite([[1.0] * size, [0.0] * size], "sample", 1e-6, AVSPO, eps)
        near(f"opposite G = {size}", (got[0][0], got[1][-1]), (value, -value))
    assert acr(HALF) == 0.5
    z = [.3, -1.2, .8, .1, -.5, 1.4, -.9, 0.0]
    for base in (0.0, 1.0):
        near("noise", normalize([base + 0.1 * x for x in z], "sample", 1e-8),
             (.348072, -1.392286, .928191, .116024, -.580119, 1.624334, -1.044215, 0.0))


check_printed()
rows = [{"estimator": name, "std": kind, "eps": eps, "avspo": avspo, "key": KEY, "groups": groups, "advantages": advantages,
         "collapse": [collapse(g) for g in groups], "acr": acr(groups), "weights": weights}
        for name, kind, eps, avspo, groups, advantages, weights in cases()]
lines = ",\n".join(json.dumps(row) for row in rows)
pathlib.Path(__file__).with_name("advantages.json").write_text("[\n" + lines + "\n]\n")
