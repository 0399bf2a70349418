"""The report of studies: a table of all claims, and a page for each study."""

import pathlib

import numpy as np

import inference
import prediction
import readme
import schedule
from comparison import amount, unit_of
from page import study_page
from results import chosen_value, finished
from trial import fresh_trials
from verdict import findings_of, promised_by, results_of

HEAD = ("claim", "source", "verdict", "effect", "95 % interval", "p", "seeds", "command")
GUIDE = pathlib.PurePath("docs/studies.md").name
BEGIN = f"""# Evidence

Claims about the methods that this program has, and what its own runs say about them.
[Studies]({GUIDE}) describes how they are made and judged; each row's runs are in the folder of
its study, one line for each. This page and the table in README are written by

    buttress study report studies/*.yaml --out docs/evidence.md --readme README.md

An effect above 0 is an improvement: the difference of the two arms, of shares in percentage
points, or with % the difference as a share of the second arm. *No difference* says that the effect
is within a margin, in both directions, where a claim promises no amount: of a claim to keep
something, that the other arm keeps it as well. The tasks and models are small enough for many seeds
on two cores, so a verdict holds for what its study file describes, and is no proof for a large
model.

"""


def unit(comparison):
    return unit_of(comparison.endpoint, comparison.relative)


def number(value, comparison):
    if not np.isfinite(value):
        return "-"
    return f"{100 * value:+.1f}" if unit(comparison) else f"{value:+.3f}"


def verdict_text(finding):
    words = f"**{finding.verdict}**"
    if finding.reason:
        words += f": {finding.reason}"
    if finding.verdict == "undecided":
        known = finding.more <= inference.MOST_PAIRS
        words += f"; {finding.more if known else f'more than {inference.MOST_PAIRS}'} more seeds"
    return words + kept_text(finding)


def kept_text(finding):
    """The effect on what a claim keeps besides what it gains."""
    kept, endpoint = finding.kept, finding.comparison.keeps
    if not kept:
        return ""
    effect, low, high = (amount(value, endpoint, form="+.3g")
                         for value in (kept.effect, kept.low, kept.high))
    return f"; {endpoint} {effect} ({low} to {high})"


def what(comparison):
    besides = f" and {comparison.keeps}" if comparison.keeps and not comparison.only_keeps else ""
    return (f"{comparison.claim} ({comparison.arm} against {comparison.against} on "
            f"{comparison.task}, {comparison.endpoint}{besides})")


def row_of(study, finding):
    comparison = finding.comparison
    return (what(comparison), comparison.source, verdict_text(finding),
            number(finding.effect, comparison) + unit(comparison),
            f"{number(finding.low, comparison)} to {number(finding.high, comparison)}"
            f"{unit(comparison)}",
            f"{finding.adjusted_p:.2g}", str(len(finding.seeds)),
            f"`buttress study run {study.path}`")


def results_for(study):
    """The results of stage two, checked."""
    first = schedule.check_unchanged(study)
    schedule.check_not_fewer(study)
    results = finished(study, fresh_trials(study))
    schedule.check_results(study, first, results)
    schedule.check_no_gap(study, results)
    return results


def notes_of(study, findings, results):
    hours = sum(r["seconds"] for r in results.values()) / 3600
    builds = {r["build"]["commit"] for r in results.values()}
    yield (f"{len(results)} runs, {hours:.1f} hours one after the other, of "
           f"{', '.join(sorted(builds))}; "
           f"study file {study.sha256[:12]}.")
    for finding in findings:
        if len(finding.seeds) < 2:
            continue
        low, high = finding.covariate
        comparison, words = finding.comparison, []
        if np.isfinite(low):
            words.append(f"adjusted for cold accuracy {low:+.3f} to {high:+.3f}")
        within = amount(comparison.margin, comparison.endpoint, comparison.relative)
        words.append(f"within ±{within}: p = {finding.equivalence_p:.2g}")
        words.append(f"power for an effect of {promised_by(comparison):g} at this spread of "
                     f"{finding.deviation:.3f}: {finding.power:.2f}")
        yield f"{what(comparison)}: {'; '.join(words)}."
    if study.tuned:
        for task in study.tasks:
            chosen = {arm: chosen_value(study, task, arm) for arm in study.arms}
            yield (f"{study.tuned} by stage one on {task}, of "
                   f"{', '.join(map(str, study.grid))}: " +
                   ", ".join(f"{arm} {value}" for arm, value in chosen.items()) + ".")


def readme_row(study, finding):
    c = finding.comparison
    return (c.claim, c.source, f"**{finding.verdict}**", f"{number(finding.effect, c)} "
            f"({number(finding.low, c)} to {number(finding.high, c)}){unit(c)}",
            str(len(finding.seeds)),
            f"`buttress study run {study.path}`")


def page_of(study, findings, results):
    tasks = {task: {arm: runs for arm in study.arms if (runs := results_of(results, task, arm))}
             for task in study.tasks}
    tasks = {task: arms for task, arms in tasks.items() if arms}
    rows = [row_of(study, finding) for finding in findings]
    page = study_page(study.name, study.fixed.get("question", ""), [HEAD, *rows], tasks,
                      notes_of(study, findings, results))
    return page.replace("**", "")


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


class Report:
    """What the results of several studies decide."""

    def __init__(self, studies):
        self.judged = []  # (study, findings, results) of those with results
        for study in studies:
            results = results_for(study)
            if results:
                self.judged.append((study, findings_of(study, results), results))

    def table(self):
        return markdown(HEAD, [row_of(study, finding) for study, findings, _ in self.judged
                               for finding in findings])

    def page(self):
        rows = [row for study, _, results in self.judged
                for row in prediction.rows_of(study, results)]
        return BEGIN + self.table() + (prediction.section(rows) if rows else "")

    def readme_rows(self):
        return [readme_row(study, finding) for study, findings, _ in self.judged
                for finding in findings if finding.comparison.readme]


def report(studies, out, readme_path=None):
    """Writes the page of each study next to its results, the table of all claims to `out` and its
    chosen rows to `readme_path`, where these are given; returns the table."""
    found = Report(studies)
    for study, findings, results in found.judged:
        (study.folder / "page.html").write_text(page_of(study, findings, results),
                                                encoding="utf-8")
    if out:
        out.write_text(found.page(), encoding="utf-8")
    if readme_path:
        readme.update(readme_path, found.readme_rows(), markdown)
    return found.table()
