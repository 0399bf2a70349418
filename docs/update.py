"""Tables of docs/estimators.md, losses.md and verifiers.md, and figures, from the program itself: update.py BUTTRESS DOCS [--check]
(docs/update.sh); with --check nothing is written, and the command fails if something would be."""
import json
import pathlib
import subprocess
import sys

BUTTRESS, DOCS, CHECK = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] == ["--check"]
stale = []
SIZE = 8
AVSPO = ["advantage=avspo", "std=population", "avspo.acr_threshold=0", "avspo.slope=1000"]
FIGURES = {  # file: (title, {legend: settings of run.algorithm})
    "group": ("Relative to the group", {"grpo": [], "grpo, population": ["std=population"], "dr_grpo": ["advantage=dr_grpo"],
                                        "opo": ["advantage=opo"], "pass_k": ["advantage=pass_k"]}),
    "batch": ("Relative to the batch", {"reinforce_pp": ["advantage=reinforce_pp"],
                                        "reinforce_pp_baseline": ["advantage=reinforce_pp_baseline"], "gpg": ["advantage=gpg"]}),
    "difficulty": ("By difficulty (batch success rate 1/2)", {"grpo": [], "a_grae, paper": ["advantage=a_grae"],
                                                              "a_grae, released": ["advantage=a_grae", "a_grae.form=released"]}),
    "virtual": ("With virtual rewards", {
        "ngrpo": ["advantage=ngrpo", "std=population"], "avspo opposite": AVSPO + ["avspo.mode=opposite"],
        "avspo ladder": AVSPO + ["avspo.mode=ladder", "avspo.ladder.threshold=0", "avspo.ladder.threshold_min=0"],
        "avspo prior, m = 1/2": AVSPO + ["avspo.mode=prior", "avspo.prior.kappa=8"]}),
    "plain": ("Without a baseline", {"w_reinforce": ["advantage=w_reinforce"], "reinforce_rej": ["advantage=reinforce_rej"],
                                     "raft": ["advantage=raft"]}),
}
COLORS = ["#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#c77d1e"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 340, 52, 200, 34, 40


def groups():
    for k in range(SIZE + 1):
        rewards = [1] * k + [0] * (SIZE - k)
        yield json.dumps({"id": k, "rewards": rewards, "lengths": [2 - r for r in rewards], "history": {"correct": 4000, "scored": 8000}})


def curves(settings):
    """Advantage of a correct and of a wrong completion, by the number of correct ones."""
    command = [BUTTRESS, "advantages", "-", "--json"] + [x for s in settings for x in ("--set", f"run.algorithm.{s}")]
    lines = subprocess.run(command, input="\n".join(groups()), capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [json.loads(line)["advantages"] for line in lines[:-1]]
    return [(k, rows[k][0]) for k in range(1, SIZE + 1)], [(k, rows[k][-1]) for k in range(SIZE)]


def figure(title, lines):
    data = {name: curves(settings) for name, settings in lines.items()}
    values = [a for pair in data.values() for curve in pair for _, a in curve] + [0.0]
    low, high = min(values), max(values)
    margin = 0.06 * (high - low)
    low, high = low - margin, high + margin

    def x(k):
        return LEFT + (WIDTH - LEFT - RIGHT) * k / SIZE

    def y(a):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - a) / (high - low)

    step = next(s for s in (0.1, 0.25, 0.5, 1, 2, 5) if (high - low) / s < 9)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="20" font-size="14">{title}</text>']
    for tick in range(round(low / step) - 1, round(high / step) + 2):
        if low <= tick * step <= high:
            at = y(tick * step)
            svg.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{"#888" if tick == 0 else "#e4e4e4"}"/>')
            svg.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick * step:g}</text>')
    for k in range(SIZE + 1):
        svg.append(f'<text x="{x(k):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{k}/{SIZE}</text>')
    svg.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">success rate of the group</text>')
    for i, (name, pair) in enumerate(data.items()):
        for curve, dash in zip(pair, ("", ' stroke-dasharray="5 4"')):
            points = " ".join(f"{x(k):.1f},{y(a):.1f}" for k, a in curve)
            svg.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[i]}" stroke-width="2"{dash}/>')
            svg += [f'<circle cx="{x(k):.1f}" cy="{y(a):.1f}" r="2.6" fill="{COLORS[i]}"/>' for k, a in curve]
        svg.append(f'<text x="{WIDTH - RIGHT + 14}" y="{TOP + 14 + 18 * i}" fill="{COLORS[i]}">{name}</text>')
    svg.append(f'<text x="{WIDTH - RIGHT + 14}" y="{TOP + 26 + 18 * len(data)}" fill="#555">solid: correct, dashed: wrong</text>')
    return "\n".join(svg + ["</svg>\n"])


def write(path, text):
    if CHECK and path.read_text() != text:
        stale.append(str(path))
    if not CHECK:
        path.write_text(text)


def write_between(path, begin, text, end):
    """Puts `text` between the lines `begin` and `end` of a page."""
    head, rest = path.read_text().split(begin)
    write(path, head + begin + text + end + rest.split(end)[1])


def printed(*arguments):
    return subprocess.run([BUTTRESS, *arguments], capture_output=True, text=True, check=True).stdout


write_between(DOCS / "estimators.md", "<!-- tables: written by docs/update.sh -->\n", printed("advantages", "--estimator", "list", "--markdown"),
              "<!-- end of tables -->")
write_between(DOCS / "losses.md", "<!-- tables: written by docs/update.sh -->\n", printed("losses", "--markdown"), "<!-- end of tables -->")
rows = [line.split(maxsplit=1) for line in printed("verify", "--list").splitlines()]
write_between(DOCS / "verifiers.md", "<!-- table: written by docs/update.sh -->\n",
              "| verifier | correct where |\n|---|---|\n" + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in rows), "<!-- end of table -->")
for name, (title, lines) in FIGURES.items():
    write(DOCS / "figures" / f"{name}.svg", figure(title, lines))
if stale:
    sys.exit(f"not what the program says: {', '.join(stale)}; run docs/update.sh")
