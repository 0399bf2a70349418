"""The page of a study: one HTML file without scripts, that shows every run."""

import html

import numpy as np

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 260, 52, 34, 12, 12
COLOURS = ("#1b6ca8", "#c8553d", "#2e8b57", "#8a5a9e", "#b8860b", "#555555", "#008b8b", "#a0522d")
STYLE = """body{font:15px/1.5 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}
svg{background:#fafafa;margin:.5em 0}svg text{font:11px sans-serif;fill:#444}"""


def text(value):
    return html.escape(str(value))


def colour(index):
    return COLOURS[index % len(COLOURS)]


class Plot:
    """Axes with marks on them; the ranges are those of the values."""

    def __init__(self, xs, ys, x_label, y_label):
        self.parts = []
        self.x_range, self.y_range = self.widened(xs), self.widened(ys)
        for value in np.linspace(*self.y_range, 5):
            y = self.y(value)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" '
                              f'stroke="#ddd"/><text x="{LEFT - 4}" y="{y + 4}" '
                              f'text-anchor="end">{value:.3g}</text>')
        self.label((LEFT + WIDTH) / 2, HEIGHT - 4, x_label, "middle")
        self.label(LEFT, TOP, y_label, "start")

    @staticmethod
    def widened(values):
        low, high = float(min(values)), float(max(values))
        room = (high - low) * 0.05 or abs(high) * 0.1 or 1
        return low - room, high + room

    def x(self, value):
        low, high = self.x_range
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value):
        low, high = self.y_range
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP), 1)

    def label(self, x, y, words, anchor="start", fill="#444"):
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" style="fill:{fill}">'
                          f'{text(words)}</text>')

    def tick(self, value, words):
        self.label(self.x(value), HEIGHT - BOTTOM + 14, words, "middle")

    def dot(self, x, y, paint, title):
        self.parts.append(f'<circle cx="{self.x(x)}" cy="{self.y(y)}" r="3" fill="{paint}" '
                          f'fill-opacity=".55"><title>{text(title)}</title></circle>')

    def line(self, points, paint, width=1.5):
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{paint}" '
                          f'stroke-width="{width}"/>')

    def band(self, xs, lows, highs, paint):
        edge = [*zip(xs, lows), *zip(reversed(xs), reversed(highs))]
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in edge)
        self.parts.append(f'<polygon points="{path}" fill="{paint}" fill-opacity=".15"/>')

    def svg(self):
        return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">' +
                "".join(self.parts) + "</svg>")


def dots(arms, key):
    """Every run of every arm as a dot, the mean as a bar. `arms`: name -> results by seed."""
    values = [r["endpoints"][key] for results in arms.values() for r in results.values()]
    plot = Plot([-0.5, len(arms) - 0.5], values, "", key)
    for index, (arm, results) in enumerate(arms.items()):
        for seed, result in results.items():
            place = index + ((seed * 0.618) % 1 - 0.5) * 0.4  # so that dots do not cover each other
            plot.dot(place, result["endpoints"][key], colour(index), f"{arm}, seed {seed}")
        mean = np.mean([r["endpoints"][key] for r in results.values()])
        plot.line([(index - 0.3, mean), (index + 0.3, mean)], colour(index), 2)
        plot.tick(index, f"{arm} ({len(results)})")
    return plot.svg()


def curves(arms, key):
    """The mean of each arm over its runs, and the middle half of them as a band."""
    drawn = {arm: np.array([r["curve"][key] for r in results.values()])
             for arm, results in arms.items()}
    steps = {arm: next(iter(results.values()))["curve"]["step"] for arm, results in arms.items()}
    bands = {arm: np.quantile(values, (0.25, 0.75), axis=0) for arm, values in drawn.items()}
    plot = Plot([x for xs in steps.values() for x in xs],
                [y for band in bands.values() for y in band.flat], "step", key)
    for index, (arm, values) in enumerate(drawn.items()):
        plot.band(steps[arm], *bands[arm], colour(index))
        plot.line([*zip(steps[arm], values.mean(axis=0))], colour(index))
        plot.label(WIDTH - RIGHT, TOP + 12 * (index + 1), arm, "end", colour(index))
    return plot.svg()


def table(rows):
    head, *body = rows
    return ("<table><tr>" + "".join(f"<th>{text(cell)}</th>" for cell in head) + "</tr>" +
            "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>"
                    for row in body) + "</table>")


def study_page(title, question, verdicts, tasks, notes):
    """`verdicts`: rows of the table of claims; `tasks`: name -> arm -> results by seed."""
    parts = [f"<h1>{text(title)}</h1><p>{text(question)}</p><h2>Claims</h2>", table(verdicts),
             "".join(f"<p>{text(note)}</p>" for note in notes)]
    for task, arms in tasks.items():
        keys = next(iter(next(iter(arms.values())).values()))["endpoints"]
        parts.append(f"<h2>{text(task)}</h2>")
        parts += [curves(arms, key) for key in ("accuracy", "acr", "entropy")]
        parts += [dots(arms, key) for key in keys]
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{text(title)}'
            f"</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n")
