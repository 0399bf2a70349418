"""The audit of a run's ledger, and a recount from its rows without Buttress's own code."""
import collections
import contextlib
import json
import math
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import tempfile

BUTTRESS = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/buttress"

CLASSES = ("all_correct", "all_wrong", "other_constant", "mixed", "unscorable")
CORRECT, WRONG = 1, 2
TOLERANCE = 0.0
# Fields of GroupHead in proto/buttress/v1/experience.proto.
OUTCOMES, RAW_REWARDS = 10, 12


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
    """A copy of the ledger with its log, so that the run is not disturbed."""
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


def varint(data, at):
    """The number at `at` in the wire format of Protocol Buffers, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def packed_fields(data):
    """{field number: bytes} of the fields of a message that have a length."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        wire_type = tag & 7
        if wire_type == 0:
            _, at = varint(data, at)
        elif wire_type == 2:
            length, at = varint(data, at)
            fields[tag >> 3] = fields.get(tag >> 3, b"") + data[at:at + length]
            at += length
        else:
            at += {1: 8, 5: 4}[wire_type]
    return fields


def completions(head):
    """[(outcome, raw reward)] of a serialized GroupHead."""
    fields = packed_fields(head)
    outcomes, at = [], 0
    while at < len(fields[OUTCOMES]):
        outcome, at = varint(fields[OUTCOMES], at)
        outcomes.append(outcome)
    rewards = struct.unpack(f"<{len(outcomes)}d", fields[RAW_REWARDS])
    return list(zip(outcomes, rewards))


def recount(database):
    """{class: groups} over all accepted groups, from their completions."""
    return collections.Counter(
        classify(completions(head)) for head, in database.execute("SELECT head FROM accepted"))


def audit(folder):
    """(recount, violations): violations are what `buttress ledger audit` does not account for."""
    ran = subprocess.run([BUTTRESS, "ledger", "audit", "--json", folder], capture_output=True,
                         text=True, check=False)
    if ran.returncode not in (0, 4):
        raise RuntimeError(ran.stderr)
    bad = [finding["what"] for finding in json.loads(ran.stdout)["findings"]
           if not finding["accounted"]]
    with opened(folder) as database:
        return recount(database), bad
