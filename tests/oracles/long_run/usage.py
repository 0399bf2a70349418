"""What the processes and the folder of a run use at a moment."""

import json
import os
import pathlib

ROLES = ("buttress", "coordinator", "rollout_worker", "learner")
TICKS = os.sysconf("SC_CLK_TCK")
# Of the run folder by their first name; what is not named here is counted as `others`.
FOLDERS = ("archive", "payloads", "checkpoint", "weights", "logs", "steps.jsonl", "ledger.db",
           "ledger.db-wal", "page.html")


def status(pid):
    """Kibibytes of memory of its own and threads. Pages of files belong to the kernel."""
    fields = dict(line.split(":", 1) for line in
                  pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]), int(fields["Threads"])


def cpu_seconds(pid):
    after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS


def children(pid):
    """A process and its descendants."""
    yield pid
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from children(int(child))


class Usage:
    def __init__(self, launch, folder):
        self.launch, self.folder = launch, folder

    def sample(self, seconds):
        """None where the run starts or ends."""
        step = self.step()
        try:
            processes = dict(filter(None, map(self.process, children(self.launch))))
        except OSError:
            return None
        if step == 0 or set(processes) != set(ROLES):
            return None
        return {"seconds": round(seconds, 2), "step": step, "processes": processes,
                "bytes": self.sizes()}

    def process(self, pid):
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        if name not in ROLES:
            return None
        memory, threads = status(pid)
        return name, {"kib": memory, "threads": threads, "cpu": cpu_seconds(pid),
                      "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}

    def step(self):
        try:
            with open(self.folder / "steps.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                return json.loads(file.read().rsplit(b"\n", 2)[-2])["step"]
        except (OSError, IndexError, ValueError):
            return 0  # not there, or no line is complete

    def sizes(self):
        found = dict.fromkeys((*FOLDERS, "others"), 0)
        for where, _, names in os.walk(self.folder):
            for name in names:
                path = pathlib.Path(where, name)
                first = path.relative_to(self.folder).parts[0]
                try:
                    found[first if first in found else "others"] += path.stat().st_size
                except OSError:
                    pass  # deleted meanwhile
        return found
