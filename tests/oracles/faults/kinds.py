"""The faults. Each does its harm to a LaunchedRun, ends it, and returns; the run must recover."""

import os
import pathlib
import re
import signal
import subprocess
import time

from harm import fill, flip, require, wait_for

ROLES = {"coordinator": "coordinator", "worker": "rollout_worker", "learner": "learner"}
LONGEST_S = 6  # twice the lease of the run, and less than its patience with a collective


def one_of(run, role, rng):
    """The process of a role; it may be between two starts."""
    wait_for(f"a process of {role}", lambda: run.keep_launched() or run.pids(ROLES[role]))
    pids = run.pids(ROLES[role])
    return rng.choice(pids) if pids else None


def send(pid, sign):
    try:
        os.kill(pid, sign)
    except (ProcessLookupError, TypeError):
        pass  # it has ended by itself


def kill(role):
    return lambda run, rng: send(one_of(run, role, rng), signal.SIGKILL)


def kill_launch(run, rng):
    run.launch.kill()
    run.launch.wait()
    run.start()


def kill_everything(run, rng):
    for program in ("buttress", "coordinator", "rollout_worker", "learner", "mpirun"):
        for pid in run.pids(program):
            send(pid, signal.SIGKILL)
    run.launch.wait()
    run.start()


def pause(role):
    def fault(run, rng):
        pid = one_of(run, role, rng)
        send(pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, LONGEST_S))
        send(pid, signal.SIGCONT)
    return fault


def nft(rules):
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


def drop_ports(ports, seconds):
    """Packets from and to these TCP ports of this network are lost."""
    listed = ", ".join(map(str, ports))
    nft("table inet cut { chain input { type filter hook input priority 0; "
        f"tcp sport {{ {listed} }} drop; tcp dport {{ {listed} }} drop; }}; }}")
    time.sleep(seconds)
    nft("delete table inet cut")


def coordinator_port(run):
    try:
        return int((run.out / "coordinator.address").read_text().strip().rsplit(":", 1)[1])
    except (OSError, IndexError, ValueError):
        return None


def cut_coordinator(run, rng):
    port = coordinator_port(run)
    if port is not None:
        drop_ports([port], rng.uniform(0.05, LONGEST_S))


def connections(pid, remote):
    """The local ports from which a process is connected with the port `remote`."""
    folder = pathlib.Path("/proc") / str(pid)
    try:
        sockets = {m.group(1) for m in (re.match(r"socket:\[(\d+)\]", os.readlink(fd))
                                        for fd in (folder / "fd").iterdir()) if m}
        rows = [line.split() for name in ("tcp", "tcp6")
                for line in (folder / "net" / name).read_text().splitlines()[1:]]
    except OSError:
        return []  # it has ended
    return [int(row[1].rsplit(":", 1)[1], 16) for row in rows
            if row[9] in sockets and int(row[2].rsplit(":", 1)[1], 16) == remote]


def cut(role):
    """The connections of one process with the coordinator; new ones of it pass."""
    def fault(run, rng):
        pid, port = one_of(run, role, rng), coordinator_port(run)
        ports = connections(pid, port) if pid and port else []
        if ports:
            drop_ports(ports, rng.uniform(0.05, LONGEST_S))
    return fault


def fill_disk(run, rng):
    filler = run.out.parent / "of-another-program"
    fill(filler)
    time.sleep(rng.uniform(0.05, LONGEST_S))
    filler.unlink()


def damage_checkpoint(run, rng):
    """A byte of the newest; the learner, which is killed, takes the one before."""
    def checkpoints():
        return sorted((run.out / "checkpoint").glob("step-*"), key=lambda p: int(p.name[5:]))

    wait_for("a second checkpoint", lambda: run.keep_launched() or len(checkpoints()) > 1)
    try:
        file = rng.choice(sorted(checkpoints()[-1].glob("*.safetensors")))
        flip(file, rng.randrange(file.stat().st_size))
    except (OSError, IndexError):
        return  # a newer one has replaced it
    kill("learner")(run, rng)


def damage_payload(run, rng):
    """A byte of a group that waits for its step. The run ends, and goes on once it is put back."""
    ready = ("SELECT segment, offset, bytes FROM accepted JOIN groups USING (group_id) "
             "WHERE state = 'ready' ORDER BY group_id LIMIT 1")
    learners = run.pids("learner")
    found = []
    end = time.monotonic() + 10
    while not found and learners and time.monotonic() < end:
        for pid in learners:
            send(pid, signal.SIGSTOP)
        found = run.ask(ready)
        if not found:
            for pid in learners:
                send(pid, signal.SIGCONT)
            time.sleep(0.003)
    if not found:
        return
    segment, offset, size = found[0]
    path, place = run.out / "payloads" / f"{segment:08d}.seg", offset + 32 + size // 2
    flip(path, place)
    for pid in learners:
        send(pid, signal.SIGCONT)
    run.launch.wait(120)
    require(run.launch.returncode == 4, f"a damaged payload ends with {run.launch.returncode}")
    flip(path, place)
    run.start()


def damage_weights(run, rng):
    """A byte of the newest version that the learner has published, which stopped workers may not
    have loaded; the learner finds it when the run waits."""
    workers = run.pids("rollout_worker")
    for pid in workers:
        send(pid, signal.SIGSTOP)
    time.sleep(0.2)
    versions = [p for p in (run.out / "weights").glob("v*") if p.is_dir()]
    try:
        newest = max(versions, key=lambda p: p.stat().st_mtime_ns)
        file = rng.choice(sorted(newest.glob("*.safetensors")))
        flip(file, rng.randrange(file.stat().st_size))
    except (OSError, ValueError, IndexError):
        pass  # a newer one has replaced it
    for pid in workers:
        send(pid, signal.SIGCONT)


# With their weights: what happens to users often is tried often.
FAULTS = {
    "kill coordinator": (kill("coordinator"), 4),
    "kill worker": (kill("worker"), 4),
    "kill learner rank": (kill("learner"), 4),
    "kill launch": (kill_launch, 1),
    "kill everything": (kill_everything, 1),
    "pause coordinator": (pause("coordinator"), 3),
    "pause worker": (pause("worker"), 3),
    "pause learner rank": (pause("learner"), 3),
    "cut coordinator": (cut_coordinator, 3),
    "cut worker": (cut("worker"), 3),
    "cut learner rank": (cut("learner"), 3),
    "full disk": (fill_disk, 2),
    "damaged checkpoint": (damage_checkpoint, 2),
    "damaged payload": (damage_payload, 1),
    "damaged weights": (damage_weights, 1),
}
