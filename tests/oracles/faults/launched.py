"""A run under `buttress launch`, on a small disk and a network of its own, and its processes."""

import collections
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

from harm import PATIENCE_S, Failed, require, wait_for

DISK = "256m"
STATES = "SELECT state, COUNT(*) FROM groups GROUP BY state"
MARK = "BUTTRESS_FAULTS_RUN"
PROMPTS = 8


class LaunchedRun:
    def __init__(self, programs, task, folder, steps, zero):
        self.programs, self.task, self.steps, self.zero = programs, task, steps, zero
        self.folder, self.out = folder, folder / "disk" / "run"
        self.launch, self.starts = None, 0

    def prepare(self):
        (self.folder / "disk").mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs",
                        self.folder / "disk"], check=True)
        config = {
            "run": {"name": "faults", "steps": self.steps, "deterministic": True,
                    "checkpoint_interval": 10, "checkpoints": {"keep_last": 5}, "lease_ms": 3000,
                    "data": {"prompts": str(self.task / "train.jsonl"),
                             "held_out": str(self.task / "held_out.jsonl")},
                    "model": {"path": str(self.task / "model")},
                    "sampling": {"group_size": 4, "max_tokens": 8},
                    "batch": {"prompts": PROMPTS, "max_age": 0},
                    "reward": {"verifier": "countdown", "use_all": True},
                    "algorithm": {"advantage": "avspo", "avspo": {"mode": "opposite"}},
                    "optim": {"lr": 3e-4}},
            "local": {"out": str(self.out), "coordinator": {"payload_segment_bytes": 1 << 20,
                                                            "archive_steps": 100},
                      "learner": {"collective_timeout_ms": 20000, "zero": self.zero,
                                  "stop_when": {"uninformative_steps": 0}},
                      "launch": {"workers": 2, "learner_ranks": 2, "max_restarts": 1000000}}}
        (self.folder / "run.yaml").write_text(json.dumps(config))  # JSON is YAML

    def start(self):
        self.starts += 1
        log = open(self.folder / "launch.log", "ab")
        self.launch = subprocess.Popen(
            [self.programs / "buttress", "launch", self.folder / "run.yaml", "--no-eval"],
            stdout=log, stderr=log, env=os.environ | {MARK: str(self.folder)})

    def keep_launched(self):
        """What systemd does: starts again what has not ended well. Returns whether it has ended."""
        if self.launch.poll() is None:
            return False
        if self.launch.returncode == 0:
            return True
        self.start()
        return False

    def pids(self, program):
        found = []
        mark = f"{MARK}={self.folder}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                name = os.path.basename(os.readlink(entry / "exe")) if entry.name.isdigit() else ""
                if name != program:
                    continue
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
        return sorted(found)

    def step(self):
        try:
            with open(self.out / "steps.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                return json.loads(file.read().splitlines()[-1])["step"]
        except (OSError, IndexError, ValueError):
            return 0  # not there, or a line half written

    def ask(self, sql):
        ledger = sqlite3.connect(f"file:{self.out}/ledger.db?mode=ro", uri=True, timeout=60)
        try:
            return ledger.execute(sql).fetchall()
        finally:
            ledger.close()

    def states(self):
        """The groups by state, those of the archives too."""
        counts = collections.Counter(dict(self.ask(STATES)))
        for path in (self.out / "archive").glob("*.db"):
            archive = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
            counts.update(dict(archive.execute(STATES).fetchall()))
            archive.close()
        return dict(counts)

    def committed(self):
        """The step that the ledger has. A learner that begins again writes steps.jsonl anew."""
        try:
            return self.ask("SELECT committed_step FROM run")[0][0]
        except (sqlite3.Error, IndexError):
            return 0

    def wait_for_progress(self, steps, what):
        """Waits until `steps` more steps are committed, or the run has ended."""
        target = self.committed() + steps
        wait_for(f"step {target} after {what}",
                 lambda: self.keep_launched() or self.committed() >= target)

    def ended(self):
        return self.launch.poll() == 0

    def result(self):
        """What the run has left; raises Failed if anything is lost or twice."""
        trained = [json.loads(line)["step"]
                   for line in (self.out / "steps.jsonl").read_text().splitlines()]
        require(trained == list(range(1, self.steps + 1)), "steps are missing or twice")
        states = self.states()
        require(states.get("settled") == self.steps * PROMPTS, f"not all is settled: {states}")
        audit = subprocess.run([self.programs / "buttress", "ledger", "audit", self.out, "--json"],
                               capture_output=True, text=True, timeout=PATIENCE_S)
        require(audit.returncode == 0, f"audit: {audit.stdout}{audit.stderr}")
        files = sorted(p for p in (self.out / "model").rglob("*") if p.is_file())
        digests = {str(p.relative_to(self.out)): hashlib.sha256(p.read_bytes()).hexdigest()
                   for p in files}
        require(any(name.endswith(".safetensors") for name in digests), "there is no model")
        return {"groups": states, "findings": json.loads(audit.stdout).get("findings", []),
                "digests": digests}

    def close(self):
        if self.launch is not None:
            for program in ("buttress", "coordinator", "rollout_worker", "learner", "mpirun"):
                for pid in self.pids(program):
                    os.kill(pid, signal.SIGKILL)
            self.launch.wait()
        subprocess.run(["umount", "-l", self.folder / "disk"], check=False)
        shutil.rmtree(self.folder / "disk", ignore_errors=True)
