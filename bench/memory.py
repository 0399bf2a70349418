"""Memory of a process with all of its children, sampled from /proc."""

import pathlib
import threading

PERIOD_SECONDS = 0.5
FIELDS = {"Pss:": "pss", "Rss:": "rss"}


def family(pid):
    """`pid` and every process below it, with their names."""
    members, waiting = {}, [pid]
    while waiting:
        one = waiting.pop()
        try:
            members[one] = pathlib.Path(f"/proc/{one}/comm").read_text().strip()
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it has ended
    return members


def smaps(pid):
    """PSS and RSS in MiB."""
    sizes = {"pss": 0.0, "rss": 0.0}
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            words = line.split()
            if words and words[0] in FIELDS:
                sizes[FIELDS[words[0]]] = int(words[1]) / 1024
    except OSError:
        pass
    return sizes


class Peak:
    """The largest sum of PSS over the family while it runs, the largest RSS, and the largest PSS
    and RSS of each program."""
    def __init__(self, pid):
        self.pid = pid
        self.pss = self.rss = 0.0
        self.by_name = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stop.wait(PERIOD_SECONDS):
            total = {"pss": 0.0, "rss": 0.0}
            for pid, name in family(self.pid).items():
                sizes = smaps(pid)
                best = self.by_name.setdefault(f"{name}[{pid}]", {"pss": 0.0, "rss": 0.0})
                for key, size in sizes.items():
                    total[key] += size
                    best[key] = max(best[key], size)
            self.pss, self.rss = max(self.pss, total["pss"]), max(self.rss, total["rss"])

    def close(self):
        self.stop.set()
        self.thread.join()
