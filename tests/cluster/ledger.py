"""A recount of a run's ledger from its rows, independent of Buttress's own code."""
import collections
import contextlib
import math
import shutil
import sqlite3
import tempfile

CLASSES = ("all_correct", "all_wrong", "other_constant", "mixed", "unscorable")
CORRECT, WRONG = 1, 2
TOLERANCE = 0.0


def classify(rows):
    """The collapse class of a group from (outcome, raw reward) of its completions."""
    scored = [(outcome, reward) for outcome, reward in rows
              if outcome in (CORRECT, WRONG) and math.isfinite(reward)]
    if len(scored) < 2:
        return "unscorable"
    rewards = [reward for _, reward in scored]
    if max(rewards) - min(rewards) > TOLERANCE:
        return "mixed"
    outcomes = {outcome for outcome, _ in scored}
    if outcomes == {CORRECT}:
        return "all_correct"
    return "all_wrong" if outcomes == {WRONG} else "other_constant"


@contextlib.contextmanager
def opened(folder):
    """A copy of the ledger with its log, so that the run goes on undisturbed."""
    with tempfile.TemporaryDirectory() as copy:
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"{folder}/ledger.db{suffix}", copy)
        database = sqlite3.connect(f"{copy}/ledger.db")
        yield database
        database.close()


def committed_step(folder):
    with opened(folder) as database:
        return database.execute("SELECT committed_step FROM run").fetchone()[0]


def recount(database):
    """{class: groups} over all accepted groups, from their completions."""
    groups = collections.defaultdict(list)
    for group, outcome, reward in database.execute(
            "SELECT group_id, outcome, raw_reward FROM completions"):
        groups[group].append((outcome, reward))
    return collections.Counter(classify(rows) for rows in groups.values())


def audit(folder, prompts_per_step):
    """(recount, violations): every drawn prompt is in one state, every plan is whole, no group is
    trained twice, and the reported classes are those of the outcomes."""
    bad = []
    with opened(folder) as database:
        def rows(query):
            return database.execute(query).fetchall()

        ids = [group for group, in rows("SELECT group_id FROM groups ORDER BY group_id")]
        following = rows("SELECT next_group_id FROM run")[0][0]
        if ids != list(range(1, following)):
            bad.append(f"{len(ids)} groups, but the next one is {following}")
        for step, count in rows("SELECT step, count(*) FROM plan_groups GROUP BY step"):
            if count != prompts_per_step:
                bad.append(f"the plan of step {step} has {count} groups")
        steps = [step for step, in rows("SELECT step FROM plans ORDER BY step")]
        if steps != list(range(1, len(steps) + 1)):
            bad.append("the plans have gaps")
        strays = rows("SELECT count(*) FROM groups g LEFT JOIN plan_groups p USING (group_id) "
                      "WHERE g.state IN ('batched', 'trained', 'settled') AND "
                      "(p.step IS NULL OR p.step != g.step)")[0][0]
        if strays:
            bad.append(f"{strays} trained groups are not in the plan that they name")
        counts = recount(database)
        reported = dict(zip(CLASSES, rows(
            f"SELECT {', '.join(f'sum({name})' for name in CLASSES)} FROM collapse")[0]))
        if {name: counts[name] for name in CLASSES} != reported:
            bad.append(f"the run reports {reported}, its outcomes give {dict(counts)}")
    return counts, bad
