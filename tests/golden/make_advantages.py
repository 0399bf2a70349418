"""Writes advantages.json, the golden vectors of lib/rl's estimators.

Plain Python in double precision, written from the papers and released codes, not from the C++:
  grpo, dr_grpo, rloo, opo    arXiv 2402.03300 (sample std as in verl and TRL), 2503.20783,
                              2402.14740, 2505.23585
  reinforce_pp(_baseline)     arXiv 2501.03262 with gamma 1, whitened as verl's masked_whiten
  pass_at_k                   arXiv 2508.10751: every set of k completions is written out
  gpg, pass_k, gdpo           arXiv 2504.02546, 2503.19595, 2601.05242, as verl's core_algos has
                              them; gpg also as its authors have it
  ngrpo, rl_zvp               arXiv 2509.18851, 2509.21880
  w_reinforce, reinforce_rej  arXiv 2506.01347, 2504.11343 (raft too)
  a_grae                      arXiv 2602.05548v3 Eq 12, 13, and the released
                              compute_grpo_outcome_advantage
  avspo                       noise: Gaussian noise on the rewards; opposite: the released code of
                              arXiv 2605.21125 (hexixiang/ACR), per group; ladder: the paper's text
                              (Eq 9 - 14); prior: docs/theory.md, section 4
  Philox                      Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11;
                              normals by Box-Muller
Virtual rewards are written out one by one where their number is whole; only `prior` uses moments.
check_printed holds six-digit numbers that were computed independently of this file; the script
fails if its own differ. Run: python3 tests/golden/make_advantages.py
"""
import itertools
import json
import math
import pathlib

A1, A4, A7 = [1.0] + [0.0] * 7, [1.0] * 4 + [0.0] * 4, [1.0] * 7 + [0.0]
B, C = [1.0, 0.0, 0.0, 1.0], [0.2, 0.5, 1.0, 0.0]
ONES, ZEROS = [1.0] * 8, [0.0] * 8


def real(rewards):
    """None marks an unscorable completion."""
    return [r for r in rewards if r is not None]


def std(values, ddof):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - ddof))


def divisor(values, kind, eps):
    return {
        "sample": lambda: std(values, 1) + eps, "population": lambda: std(values, 0) + eps,
        "none": lambda: 1.0
    }[kind]()


def spread(rewards, function):
    """function gives the advantages of the scorable completions."""
    scored = real(rewards)
    advantages = iter(
        function(scored) if len(scored) > 1 and max(scored) != min(scored) else [0.0] * len(scored))
    return [0.0 if r is None else next(advantages) for r in rewards]


def normalize(rewards, kind, eps):
    def of(scored):
        mean = math.fsum(scored) / len(scored)
        return [(r - mean) / divisor(scored, kind, eps) for r in scored]
    return spread(rewards, of)


def among(rewards, virtual, kind, eps):
    """Advantages of `rewards` in the group that also holds the virtual ones."""
    both = normalize(rewards + virtual, kind, eps)
    return both[:len(rewards)]


def collapse(rewards):
    scored = real(rewards)
    if len(scored) < 2:
        return "unscorable"
    if max(scored) != min(scored):
        return "mixed"
    return {1.0: "all_correct", 0.0: "all_wrong"}.get(scored[0], "other_constant")


def acr(groups):
    classes = [c for c in map(collapse, groups) if c != "unscorable"]
    return sum(c != "mixed" for c in classes) / len(classes) if classes else 0.0


def rloo(rewards):
    return spread(rewards, lambda s: [r - (math.fsum(s) - r) / (len(s) - 1) for r in s])


def opo(rewards, lengths):
    tokens = [t for r, t in zip(rewards, lengths, strict=True) if r is not None]

    def of(scored):
        baseline = math.fsum(t * r for t, r in zip(tokens, scored)) / sum(tokens)
        return [r - baseline for r in scored]
    return spread(rewards, of)


def whiten(groups, values, lengths, kind="sample"):
    """Every token of a scorable completion counts once."""
    tokens = [
        v for g, vs, ts in zip(groups, values, lengths, strict=True)
        for r, v, t in zip(g, vs, ts, strict=True) if r is not None for _ in range(t)
    ]
    if max(tokens) == min(tokens):
        return [[0.0] * len(g) for g in groups]
    mean = math.fsum(tokens) / len(tokens)
    variance = math.fsum(
        (x - mean) ** 2
        for x in tokens) / (len(tokens) - {"sample": 1, "population": 0, "none": 0}[kind])
    scale = 1.0 if kind == "none" else 1.0 / math.sqrt(variance + 1e-8)
    return [[0.0 if r is None else (v - mean) * scale for r, v in zip(g, vs)]
            for g, vs in zip(groups, values)]


def reinforce_pp(groups, lengths, kind="sample", baseline=False):
    values = [normalize(g, "none", 0) for g in groups] if baseline else groups
    return whiten(groups, values, lengths, kind)


def gpg(groups, form):
    every = [r for g in groups for r in real(g)]
    if form == "verl":
        factor = len(every) / sum(r != 0 for r in every)
    else:
        valid = [c for c in map(collapse, groups) if c != "unscorable"]
        factor = 1.0 / (sum(c == "mixed" for c in valid) / len(valid) + 1e-5)
    return [[factor * a for a in normalize(g, "none", 0)] for g in groups]


def pass_k(rewards, kind, eps):
    def of(scored):
        first, second = sorted(scored, reverse=True)[:2]
        lead = (first - second) / divisor(scored, kind, eps)
        return [lead if i == scored.index(first) else 0.0 for i in range(len(scored))]
    return spread(rewards, of)


def pass_at_k(rewards, k, kind, eps):
    """The mean, over the sets of k that hold a completion, of the normalised reward of the set."""
    def of(scored):
        sets = list(itertools.combinations(range(len(scored)), k))
        best = [max(scored[i] for i in chosen) for chosen in sets]
        if not best or max(best) == min(best):
            return [0.0] * len(scored)
        mean = math.fsum(best) / len(best)
        scale = 1.0 if kind == "none" else std(best, 0) + eps
        held = [[(b - mean) / scale for b, chosen in zip(best, sets) if i in chosen]
                for i in range(len(scored))]
        return [math.fsum(a) / len(a) for a in held]
    return spread(rewards, of)


def gdpo(groups, lengths, components, weights, kind, eps):
    """components: for each group, a list over completions of lists over components."""
    sums = []
    for rewards, parts in zip(groups, components, strict=True):
        columns = [[None if r is None else p[c] for r, p in zip(rewards, parts, strict=True)]
                   for c in range(len(weights))]
        each = [normalize(column, kind, eps) for column in columns]
        sums.append(
            [math.fsum(w * a[i] for w, a in zip(weights, each)) for i in range(len(rewards))])
    return whiten(groups, sums, lengths)


def ngrpo(rewards, kind, eps, best=1.0):
    return among(rewards, [best], kind, eps) if len(real(rewards)) > 1 else [0.0] * len(rewards)


def w_reinforce(rewards, positive):
    return [0.0 if r is None else positive if r == 1 else -1.0 for r in rewards]


def a_grae(groups, kind, eps, form, alpha):
    rates = [math.fsum(real(g)) / len(real(g)) for g in groups]
    every = [r for g in groups for r in real(g)]
    omega = math.fsum(rates) / len(rates) if form == "released" else math.fsum(every) / len(every)
    out = []
    for rewards, p in zip(groups, rates):
        advantages = normalize(rewards, kind, eps)
        if 0 < p < 1:
            hard, easy = math.sqrt(p), math.sqrt(1 - p)
            if form == "released":
                hard, easy = hard + eps, 1 - math.sqrt(p) + eps
            advantages = [omega * 0.5 * a / hard + (1 - omega) * 0.5 * a / easy for a in advantages]
        out.append([a * min(1.0, omega / alpha) if a > 0 else a for a in advantages])
    return out


def weight(rate, threshold, slope):
    return min(1.0, slope * (rate - threshold)) if rate > threshold else 0.0


def blend(w, base, virtual):
    return [(1 - w) * a + w * v for a, v in zip(base, virtual, strict=True)] if w > 0 else base


def philox_normal(seed, stream, index):
    mask, block = 0xFFFFFFFF, index // 2
    c = [block & mask, block >> 32, stream & mask, stream >> 32]
    k0, k1 = seed & mask, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & mask, (p0 >> 32) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    unit = [((c[i] << 32 | c[i + 1]) >> 11) * 2.0**-53 for i in (0, 2)]
    wave = math.sin if index % 2 else math.cos
    return math.sqrt(-2.0 * math.log(1.0 - unit[0])) * wave(2.0 * math.pi * unit[1])


AVSPO = {"acr_threshold": 0.3, "slope": 5.0, "variance_threshold": 0.01, "noise_std": 0.1}


def opposite(groups, kind, eps, virtual_eps=1e-6):
    w = weight(acr(groups), AVSPO["acr_threshold"], AVSPO["slope"])
    out, weights = [], []
    for rewards in groups:
        other = {"all_correct": 0.0, "all_wrong": 1.0}.get(collapse(rewards))
        base = normalize(rewards, kind, eps)
        out.append(base if other is
                   None else blend(w, base, among(rewards, [other], "sample", virtual_eps)))
        weights.append(0.0 if other is None else w)
    return out, weights, [1.0 if w > 0 else 0.0 for w in weights]


def noise(groups, key):
    scored = [real(g) for g in groups if len(real(g)) > 1]
    rate = sum(std(g, 1) ** 2 < AVSPO["variance_threshold"] for g in scored) / len(scored)
    w = weight(rate, AVSPO["acr_threshold"], AVSPO["slope"])
    out, weights, samples, row = [], [], [], 0
    for rewards in groups:
        noisy = []
        for r in rewards:
            noisy.append(None if r is None else r + AVSPO["noise_std"] * philox_normal(*key, row))
            row += r is not None
        out.append(blend(w, normalize(rewards, "sample", 1e-8), normalize(noisy, "sample", 1e-8)))
        weights.append(w if collapse(rewards) != "unscorable" else 0.0)
        samples.append(float(len(real(rewards))) if weights[-1] > 0 else 0.0)
    return out, weights, samples


def ladder_values(group, rate, alpha, anchor, symmetric):
    size = max(1, min(len(group), math.ceil(len(group) * rate**alpha)))
    if symmetric:
        return {
            1.0: [1 - k / size for k in range(1, size + 1)],
            0.0: [k / size for k in range(1, size + 1)]
        }.get(group[0])
    top = max(group) if max(group) > 0 else anchor
    return [top * (1 - (k - 1) / size) for k in range(1, size + 1)]


def ladder(groups, kind, eps, alpha=0.5, anchor=0.1, symmetric=False, strength=1.0, threshold=0.5):
    rate = acr(groups)
    out, weights, samples = [], [], []
    for rewards in groups:
        base = normalize(rewards, kind, eps)
        constant = collapse(rewards) in ("all_correct", "all_wrong", "other_constant")
        virtual = ladder_values(real(rewards), rate, alpha, anchor,
                                symmetric) if constant and rate > threshold else None
        out.append(base if virtual is
                   None else blend(strength, base, among(rewards, virtual, kind, eps)))
        weights.append(0.0 if virtual is None else strength)
        samples.append(0.0 if virtual is None else float(len(virtual)))
    return out, weights, samples


def successes(rewards):
    """Correct and scored completions; partial credit is correct in even places."""
    return (sum(r == 1 or (r not in (0, None) and i % 2 == 0) for i, r in enumerate(rewards)),
            len(real(rewards)))


def prior(groups, kind, eps, history, acr_ema, kappa=1.0, n0=None, correct=1.0, wrong=1.0):
    """A group without a history takes the success rate of the others, as of one group."""
    opening = weight(acr_ema, AVSPO["acr_threshold"], AVSPO["slope"])
    out, weights, samples = [], [], []
    for place, (rewards, (c, n)) in enumerate(zip(groups, history, strict=True)):
        base, kept = normalize(rewards, kind, eps), collapse(rewards)
        others = [successes(g) for i, g in enumerate(groups) if i != place]
        if n == 0 and sum(s for _, s in others) > 0:
            n = len(real(rewards))
            c = n * sum(c for c, _ in others) / sum(s for _, s in others)
        w = {"all_correct": correct, "all_wrong": wrong}.get(
            kept, 0.0) * opening * (n / (n + (n0 or len(real(rewards)))) if n else 0.0)
        weights.append(w)
        samples.append(kappa if w > 0 else 0.0)
        if w > 0:
            g, m, k = len(real(rewards)), c / n, math.fsum(real(rewards))
            mean = (k + kappa * m) / (g + kappa)
            spread_of = math.sqrt(mean * (1 - mean) *
                                  ((g + kappa) / (g + kappa - 1) if kind == "sample" else 1.0))
            scale = 1.0 if kind == "none" else spread_of + eps
            virtual = [0.0 if r is None or r == m else (r - mean) / scale for r in rewards]
            base = blend(w, base, virtual)
        out.append(base)
    return out, weights, samples


BINARY = [A1, A4, A7, B, C, ONES, ZEROS]
HALF = [A1, ONES, ZEROS, A4]                                   # ACR 0.5: weight 1
FIFTHS = [A1, ONES, ZEROS, A4, C]                              # ACR 0.4: weight 0.5
CALM = [A1, A4, A7, B, ZEROS]                                  # ACR 0.2: gate closed
STUCK = [ONES, ZEROS, [0.5] * 8, A4]                           # ACR 0.75
MASKED = [[1.0, None, 0.0, 1.0], [None, 1.0, 1.0, 1.0], [0.0, None, None, 0.0],
          [1.0, None, None, None], [0.5] * 4]
PAIR = [B, [0.0] * 4]  # a batch for whitening
PAIR_LENGTHS = [[3, 5, 2, 6], [4] * 4]
TOKENS = [3, 5, 2, 6]
PARTS = [[[1.0, 0.2], [0.0, 0.9], [0.0, 0.4], [1.0, 0.1]],
         [[0.0, 0.5], [0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]]
HISTORY = [[0, 0], [8, 32], [0, 5], [9, 9], [3, 12]]
KEY = [0x1234567890ABCDEF, 42]


def row(estimator, groups, advantages, weights=None, samples=None, settings=(), **extra):
    zeros = [0.0] * len(groups)
    return {
        "set": [f"run.algorithm.advantage={estimator}",
                *(f"run.algorithm.{s}" for s in settings)], "key": KEY, "groups": groups,
        "advantages": advantages, "collapse": [collapse(g) for g in groups], "acr": acr(groups),
        "weights": weights or zeros, "samples": samples or zeros, **extra
    }


def lengths_of(groups):
    return [[TOKENS[i % 4] for i in range(len(g))] for g in groups]


def group_cases():
    for kind, eps in (("sample", 1e-6), ("sample", 1e-4), ("sample", 1e-9), ("population", 1e-6),
                      ("none", 1e-6)):
        settings = [f"std={kind}", f"eps={eps}"]
        for groups in (BINARY, MASKED):
            yield row("grpo", groups, [normalize(g, kind, eps) for g in groups], settings=settings)
            yield row("pass_k", groups, [pass_k(g, kind, eps) for g in groups], settings=settings)
            advantages = [ngrpo(g, kind, eps) for g in groups]
            joined = [1.0 if len(real(g)) > 1 else 0.0 for g in groups]
            yield row("ngrpo", groups, advantages, joined, joined, settings)
            yield row("rl_zvp",
                      groups, [normalize(g, kind, eps) for g in groups],
                      settings=settings + ["rl_zvp.alpha=0.2"],
                      entropy_scale=[[
                          0.0 if r is None else {"all_correct": .2, "all_wrong": -.2}.get(
                              collapse(g), 0.0) for r in g
                      ] for g in groups])
    for groups in (BINARY, MASKED):
        lengths = lengths_of(groups)
        yield row("dr_grpo", groups, [normalize(g, "none", 0) for g in groups])
        yield row("rloo", groups, [rloo(g) for g in groups])
        yield row("opo", groups, [opo(g, t) for g, t in zip(groups, lengths)], lengths=lengths)
        yield row("reinforce_rej", groups, [spread(g, lambda s: s) for g in groups])
        yield row("raft", groups, [[0.0 if r is None else max(r, 0.0) for r in g] for g in groups])
    signed = [[1.0, -1.0, -1.0, 0.5], [-1.0] * 4]
    yield row("raft", signed, [[1.0, 0.0, 0.0, 0.5], [0.0] * 4])
    crisp = [A1, ONES, ZEROS, [1.0, None, 0.0]]
    yield row("w_reinforce", crisp, [w_reinforce(g, 0.1) for g in crisp])
    yield row("w_reinforce",
              crisp, [w_reinforce(g, 0.5) for g in crisp],
              settings=["w_reinforce.positive_weight=0.5"])
    outcomes = [*crisp, A4, A7, B, [0.0, 1.0, None, 0.0, 1.0] + [0.0] * 7]
    for k in (1, 2, 3, 4, 5, 7, 8):
        for kind, eps in (("sample", 1e-6), ("population", 0.0), ("none", 1e-6)):
            yield row("pass_at_k",
                      outcomes, [pass_at_k(g, k, kind, eps) for g in outcomes],
                      settings=[f"std={kind}", f"eps={eps}", f"pass_at_k.k={k}"])


def batch_cases():
    for groups, lengths in ((PAIR, PAIR_LENGTHS), (BINARY, lengths_of(BINARY)),
                            (MASKED, lengths_of(MASKED)), ([ONES], lengths_of([ONES]))):
        for kind in ("sample", "population", "none"):
            yield row("reinforce_pp",
                      groups,
                      reinforce_pp(groups, lengths, kind),
                      settings=[f"std={kind}"],
                      lengths=lengths)
            yield row("reinforce_pp_baseline",
                      groups,
                      reinforce_pp(groups, lengths, kind, True),
                      settings=[f"std={kind}"],
                      lengths=lengths)
    for groups in (PAIR, BINARY, MASKED):
        for form in ("verl", "official"):
            yield row("gpg", groups, gpg(groups, form), settings=[f"gpg.form={form}"])
    for weights, settings in (([1.0, 1.0], []), ([1.0, 0.25], ["gdpo.weights=[1, 0.25]"])):
        yield row("gdpo",
                  PAIR,
                  gdpo(PAIR, PAIR_LENGTHS, PARTS, weights, "sample", 1e-6),
                  settings=settings,
                  lengths=PAIR_LENGTHS,
                  components=PARTS)
    crisp = [[1.0, None, 0.0, 1.0], [None, 1.0, 1.0, 1.0], [0.0, 0.0]]
    for groups in (HALF, crisp):
        for form in ("paper", "released"):
            for kind, eps in (("sample", 1e-6), ("population", 0.0)):
                for alpha in (1.0, 0.5):
                    yield row("a_grae",
                              groups,
                              a_grae(groups, kind, eps, form, alpha),
                              settings=[
                                  f"std={kind}", f"eps={eps}", f"a_grae.form={form}",
                                  f"a_grae.alpha={alpha}"
                              ])


def avspo_cases():
    for groups in (HALF, FIFTHS, CALM, MASKED, [[1.0] * 4, [0.0] * 4], [[1.0] * 16, [0.0] * 16]):
        yield row("avspo", groups, *opposite(groups, "sample", 1e-6), ["avspo.mode=opposite"])
        yield row("avspo", groups, *noise(groups, KEY), ["avspo.mode=noise"])
    for groups in (HALF, STUCK, CALM, MASKED):
        for kind, eps in (("sample", 1e-6), ("population", 0.0), ("none", 1e-6)):
            for symmetric in (False, True):
                settings = [
                    f"std={kind}", f"eps={eps}", f"avspo.ladder.symmetric={str(symmetric).lower()}",
                    "avspo.mode=ladder"
                ]
                yield row("avspo", groups, *ladder(groups, kind, eps, symmetric=symmetric),
                          settings)
                yield row(
                    "avspo", groups,
                    *ladder(groups,
                            kind,
                            eps,
                            alpha=2.0,
                            anchor=0.4,
                            symmetric=symmetric,
                            strength=0.25), settings + [
                                "avspo.ladder.alpha=2", "avspo.ladder.anchor=0.4",
                                "avspo.ladder.strength=0.25"
                            ])
    unseen = [ZEROS, ONES, A4, C, ZEROS]
    for groups in (FIFTHS, MASKED, [ONES, ZEROS, ONES, ZEROS, ONES], unseen):
        for kind, eps in (("sample", 1e-6), ("population", 0.0), ("none", 1e-6)):
            settings = [f"std={kind}", f"eps={eps}", "avspo.mode=prior"]
            yield row("avspo",
                      groups,
                      *prior(groups, kind, eps, HISTORY, 0.4),
                      settings,
                      history=HISTORY,
                      acr_ema=0.4)
            yield row("avspo",
                      groups,
                      *prior(groups, kind, eps, HISTORY, 0.9, 8.0, 2.0, 0.5, 0.75),
                      settings + [
                          "avspo.prior.kappa=8", "avspo.prior.confidence_count=2",
                          "avspo.prior.strength_correct=0.5", "avspo.prior.strength_wrong=0.75"
                      ],
                      history=HISTORY,
                      acr_ema=0.9)


def near(name, got, want):
    for g, w in zip(got, want, strict=True):
        assert abs(g - w) <= 6e-7, f"{name}: {g:.7f}, expected {w}"


def check_groups():
    tables = {
        ("sample", 1e-6): [(2.474867, -.353552), (.935413, -.935413), (.353552, -2.474867),
                           (.866024, -.866024)], ("sample", 1e-4): [(2.474174, -.353453),
                                                                    (.935239, -.935239),
                                                                    (.353453, -2.474174),
                                                                    (.865875, -.865875)],
        ("sample", 1e-9): [(2.474874, -.353553), (.935414, -.935414), (.353553, -2.474874),
                           (.866025, -.866025)], ("population", 1e-6): [(2.645743, -.377963),
                                                                        (.999998, -.999998),
                                                                        (.377963, -2.645743),
                                                                        (.999998, -.999998)],
        ("none", 0): [(.875, -.125), (.5, -.5), (.125, -.875), (.5, -.5)],
    }
    rows = {key: lambda g, key=key: normalize(g, *key) for key in tables}
    rows["rloo"] = rloo
    tables["rloo"] = [(1.0, -.142857), (.571429, -.571429), (.142857, -1.0), (.666667, -.666667)]
    rows["ngrpo sample"], rows["ngrpo population"] = (lambda g: ngrpo(g, "sample", 1e-6)), (
        lambda g: ngrpo(g, "population", 1e-6))
    tables["ngrpo sample"] = [(1.763830, -.503951), (.843272, -1.054091), (.333332, -2.666659),
                              (.730295, -1.095443)]
    tables["ngrpo population"] = [(1.870824, -.534521), (.894425, -1.118032), (.353552, -2.828418),
                                  (.816495, -1.224742)]
    rows["pass_k"] = lambda g: pass_k(g, "sample", 1e-6)
    tables["pass_k"] = [(2.828419, 0), (0, 0), (0, 0), (0, 0)]
    for name, table in tables.items():
        for group, pair in zip((A1, A4, A7, B), table, strict=True):
            got = rows[name](group)
            near(name, (got[group.index(1.0)], got[group.index(0.0)]), pair)
    near("C sample 1e-6", normalize(C, "sample", 1e-6), (-.517320, .172440, 1.322040, -.977160))
    near("C sample 1e-4", normalize(C, "sample", 1e-4), (-.517202, .172401, 1.321739, -.976938))
    near("C population", normalize(C, "population", 1e-6), (-.597349, .199116, 1.526560, -1.128327))
    near("C rloo", rloo(C), (-.3, .1, .766667, -.566667))
    near("C pass_k", pass_k(C, "sample", 1e-6), (0, 0, 1.149600, 0))
    for k, right in ((1, 3), (3, 2), (4, 1)):  # as the released code of arXiv 2508.10751 has it
        group, wrong = [1.0] * right + [0.0] * (8 - right), 8 - right
        rho = 1 - math.comb(wrong, k) / math.comb(8, k)
        sigma = math.sqrt(rho * (1 - rho)) + 1e-6
        released = ((1 - rho) / sigma,
                    (1 - rho - math.comb(wrong - 1, k - 1) / math.comb(7, k - 1)) / sigma)
        near(f"pass_at_k {k}", pass_at_k(group, k, "sample", 1e-6)[::7], released)
    near("C ngrpo sample", ngrpo(C, "sample", 1e-6), (-.745498, -.087706, 1.008615, -1.184026))
    near("C ngrpo population", ngrpo(C, "population", 1e-6),
         (-.833492, -.098058, 1.127665, -1.323781))
    near("ngrpo constant", (ngrpo(ZEROS, "sample", 1e-6)[0], ngrpo(
        ZEROS, "population", 1e-6)[0], ngrpo(ONES, "sample", 1e-6)[0]), (-.333332, -.353552, 0))
    near("opo B", opo(B, TOKENS), (.4375, -.5625, -.5625, .4375))
    near("opo C", opo(C, TOKENS), (-.118750, .181250, .681250, -.318750))


def check_batches():
    assert acr(HALF) == 0.5
    near("reinforce_pp", sum(reinforce_pp(PAIR, PAIR_LENGTHS), []),
         (1.573434, -.615692, -.615692, 1.573434) + (-.615692,) * 4)
    near("reinforce_pp_baseline", sum(reinforce_pp(PAIR, PAIR_LENGTHS, "sample", True), []),
         (1.310072, -1.484749, -1.484749, 1.310072) + (-.087338,) * 4)
    near("reinforce_pp_baseline population",
         sum(reinforce_pp(PAIR, PAIR_LENGTHS, "population", True), []),
         (1.331035, -1.508506, -1.508506, 1.331035) + (-.088736,) * 4)
    near("gpg verl", sum(gpg(PAIR, "verl"), []), (2, -2, -2, 2, 0, 0, 0, 0))
    near("gpg official", sum(gpg(PAIR, "official"), []),
         [x * 1.999960 * 0.5 for x in (1, -1, -1, 1)] + [0] * 4)
    grae = {("paper", "population", 0.0, 1.0): (.958643, -.337105, .287262, -.707107),
            ("paper", "population", 0.0, .5): (1.917287, -.337105, .574524, -.707107),
            ("paper", "sample", 1e-6, 1.0): (.896726, -.315332, .268709, -.661437),
            ("released", "sample", 1e-6, 1.0): (1.039361, -.365489, .494339, -1.216834),
            ("released", "sample", 1e-6, .5): (2.078721, -.365489, .988678, -1.216834)}
    for (form, kind, eps, alpha), want in grae.items():
        got = a_grae(HALF, kind, eps, form, alpha)
        near(f"a_grae {form} {kind} {alpha}", (got[0][0], got[0][1], got[3][0], got[3][7]), want)


def check_virtual():
    for size, eps, value in ((8, 0.0, .333333), (8, 1e-4, .333233), (4, 1e-4, .447114), (16, 1e-4,
                                                                                         .242436)):
        got, _, _ = opposite([[1.0] * size, [0.0] * size], "sample", 1e-6, eps)
        near(f"opposite G = {size}", (got[0][0], got[1][-1]), (value, -value))
    z = [.3, -1.2, .8, .1, -.5, 1.4, -.9, 0.0]
    for base in (0.0, 1.0):
        near("noise", normalize([base + 0.1 * x for x in z], "sample", 1e-8),
             (.348072, -1.392286, .928191, .116024, -.580119, 1.624334, -1.044215, 0.0))
    sizes = {.05: 2, .125: 3, .25: 4, .5: 6, .75: 7, 1: 8}
    assert all(len(ladder_values(ONES, rate, .5, .1, False)) == k for rate, k in sizes.items())
    correct = {"population": (0, .333333, .442326, .522233, .587220, .642529, .690849, .733799),
               "sample": (0, .316228, .421741, .5, .564183, .619157, .667424, .710498)}
    wrong = {
        "population":
            (-.353553, -.468521, -.552345, -.620174, -.677631, -.727607, -.771845, -.811503),
        "sample": (-.333333, -.444478, -.526640, -.593771, -.651047, -.701140, -.745673, -.785734)
    }
    for kind in correct:
        for size in range(1, 9):
            rungs = [1 - (k - 1) / size for k in range(1, size + 1)]
            near("ladder", (among(ONES, rungs, kind, 0)[0], among(ZEROS, rungs, kind, 0)[0]),
                 (correct[kind][size - 1], wrong[kind][size - 1]))
    near("ladder anchor",
         among(ZEROS, ladder_values(ZEROS, 1, .5, .1, False), "sample", 1e-4)[:1], [-.783545])
    for size, value in ((1, .353553), (2, .468521), (4, .620174), (8, .811503)):
        rate = (size / 8) ** 2
        near("symmetric",
             (among(ONES, ladder_values(ONES, rate, .5, .1, True), "population", 0)[0],
              among(ZEROS, ladder_values(ZEROS, rate, .5, .1, True), "population", 0)[0]),
             (value, -value))
    rates = ((10, 1000), (125, 1000), (250, 1000), (500, 1000), (750, 1000), (900, 1000), (990,
                                                                                           1000))
    tables = {
        1: (.351562, .328165, .301511, .242536, .169031, .106, .033352),
        2: (.496873, .460566, .420084, .333333, .229416, .142857, .044766),
        8: (.990050, .881917, .774597, .577350, .377964, .229416, .070888)
    }
    wrongs = {
        1: (.033352, .118678, .169031, .242536, .301511, .333333, .351562),
        2: (.044766, .160128, .229416, .333333, .420084, .468521, .496873),
        8: (.070888, .258199, .377964, .577350, .774597, .904534, .990050)
    }
    for kappa in tables:
        for group, values in ((ONES, tables[kappa]), (ZEROS, [-x for x in wrongs[kappa]])):
            got = [
                prior([group], "population", 0.0, [h], 1.0, kappa, 1e-12)[0][0][0] for h in rates
            ]
            near(f"prior kappa = {kappa}", got, values)
    near("prior without std", (prior([ONES], "none", 0, [(1, 4)], 1, 1, 1e-12)[0][0][0],
                               prior([ZEROS], "none", 0, [(1, 4)], 1, 1, 1e-12)[0][0][0]),
         (.083333, -.027778))
    got, weights, _ = prior([ONES, ZEROS], "population", 0.0, [(8, 32), (8, 32)], 0.4)
    near("prior example", (weights[0], got[0][0], got[1][0]), (.4, .120605, -.067612))


check_groups()
check_batches()
check_virtual()
rows = [*group_cases(), *batch_cases(), *avspo_cases()]
pathlib.Path(__file__).with_name("advantages.json").write_text("[\n" + ",\n".join(
    json.dumps(r) for r in rows) + "\n]\n")
print(len(rows), "rows")
