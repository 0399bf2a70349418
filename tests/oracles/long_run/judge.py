"""Fits a line through what was sampled, by step, and compares its growth with a bound."""

from harm import require

WARM_UP = 0.2  # of the steps, which are not judged
# Until then the ledger fills with the groups that it keeps, and a second checkpoint is written.
WARM_UP_STEPS = 10000
WINDOWS = 24
MIB = 1 << 20
# Bytes of the run folder for each step, which a run leaves on purpose; all else must be flat.
GROWING = {"archive": 800, "steps.jsonl": 5000, "ledger.db": 1000, "logs": 500}
# SQLite keeps pages of the database in memory up to lib/ledger/ledger.cc's cache_size.
CACHE_MIB = 64
LEVELS = " ▁▂▃▄▅▆▇█"


def fit(points):
    """Growth from the first to the last x on the line of least squares, and the mean."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return slope * (points[-1][0] - points[0][0]), mean_y


def curve(points):
    values = [y for _, y in points]
    shown = values[::max(1, len(values) // WINDOWS)]
    top = max(shown)
    return "".join(LEVELS[round(8 * value / top)] if top else LEVELS[0] for value in shown)


def windows(samples, value):
    """By window of the run: its middle step, and `value` of its ends for each step. A counter falls
    where a process was started again: such a window is left out."""
    size = max(1, len(samples) // WINDOWS)
    ends = samples[::size]
    return [((a["step"] + b["step"]) / 2, (value(b) - value(a)) / (b["step"] - a["step"]))
            for a, b in zip(ends, ends[1:]) if b["step"] > a["step"] and value(b) >= value(a)]


def row(name, unit, points, bound):
    """`bound` maps the mean to the most growth; None is shown and not judged."""
    growth, mean = fit(points)
    most = bound(mean) if bound else None
    return {"name": name, "unit": unit, "first": points[0][1], "last": points[-1][1],
            "growth": growth, "most": most, "holds": most is None or growth <= most,
            "curve": curve(points)}


def cached(samples, role):
    """MiB by which the memory of a process grows with the ledger, and stops to grow."""
    if role != "coordinator":
        return 0
    growth, _ = fit([(s["step"], s["bytes"]["ledger.db"] / MIB) for s in samples])
    return 1.25 * min(CACHE_MIB, max(0, growth))


def rows_of_process(samples, role, quiet):
    def points(field, scale=1.0):
        return [(s["step"], s["processes"][role][field] * scale) for s in samples]

    yield row(f"{role}: memory", "MiB", points("kib", 1 / 1024),
              lambda mean: max(4, 0.05 * mean) + cached(samples, role))
    yield row(f"{role}: descriptors", "", points("descriptors"), lambda mean: 2)
    yield row(f"{role}: threads", "", points("threads"), lambda mean: 2)
    cpu = windows(samples, lambda s: 1000 * s["processes"][role]["cpu"])
    yield row(f"{role}: processor", "ms a step", cpu,
              (lambda mean: max(0.1, 0.2 * mean)) if quiet else None)


def judge(samples, wall_percent):
    """`wall_percent`: the growth of the time of a step that a quiet machine may show; 0: any, and
    any growth of processor time, which two threads of one core lengthen for each other."""
    warm = max(WARM_UP_STEPS, WARM_UP * samples[-1]["step"]) if samples else 0
    judged = [s for s in samples if s["step"] >= warm]
    require(len(judged) > 2 * WINDOWS, f"{len(judged)} samples after step {warm:.0f} are too few "
            f"to judge by; expected more than {2 * WINDOWS}: more steps or a shorter --interval")
    rows = []
    for role in judged[0]["processes"]:
        rows += rows_of_process(judged, role, wall_percent > 0)
    wall = (lambda mean: wall_percent / 100 * mean) if wall_percent else None
    rows.append(row("time of a step", "ms", windows(judged, lambda s: 1000 * s["seconds"]), wall))
    steps = judged[-1]["step"] - judged[0]["step"]
    for name in judged[0]["bytes"]:
        points = [(s["step"], s["bytes"][name] / MIB) for s in judged]
        a_step = GROWING.get(name)
        bound = (lambda mean, most=a_step: most * steps / MIB + 4) if a_step else (
            lambda mean: max(4, 0.1 * mean))
        rows.append(row(name, "MiB", points, bound))
        rows[-1]["a step"] = rows[-1]["growth"] * MIB / steps if a_step else None
    return rows


def table(rows):
    lines = ["| what | first | last | growth of the line | bound | curve |",
             "|---|---|---|---|---|---|"]
    for r in rows:
        growth = f"{r['growth']:+.2f}"
        if r.get("a step") is not None:
            growth += f" ({r['a step']:.0f} bytes a step)"
        bound = "none" if r["most"] is None else f"{r['most']:.2f}"
        name = f"{r['name']}, {r['unit']}" if r["unit"] else r["name"]
        lines.append(f"| {name} | {r['first']:.2f} | {r['last']:.2f} | {growth} | {bound} | "
                     f"{r['curve']} |")
    return "\n".join(lines)
