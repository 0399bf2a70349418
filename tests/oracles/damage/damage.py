"""One run of the real programs, damaged again and again while it trains.

In this order: a byte of a payload that waits for training is flipped; a byte of the newest
checkpoint is flipped, and the learner killed; an older copy of the ledger is put back, and then the
newest one; the disk of the coordinator is filled; the coordinator is stopped for a minute
(SIGSTOP). The run must end with every step, and `buttress ledger audit` must find no loss that is
not accounted for. At last the ledger is taken to be lost, and a new run begins with one of the
checkpoints (`buttress launch --from`). Prints JSON.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time

from harm import PATIENCE_S, fill, flip, make_task, require, wait_for

DISK = "64m"
PROMPTS = 8


class Run:
    """Coordinator on a small disk of its own, worker and learner elsewhere; each is restarted."""

    def __init__(self, options):
        self.bin, self.steps = pathlib.Path(options.bin), options.steps
        self.folder = pathlib.Path(options.out)
        self.disk, self.elsewhere = self.folder / "disk", self.folder / "elsewhere"
        self.programs, self.address = {}, ""

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk],
                       check=True)
        make_task(self.bin, self.folder / "task")

    def command(self, *arguments):
        """Runs `buttress` and returns its exit code and all of its output."""
        words = [self.bin / "buttress", *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        require(done.returncode in (0, 2, 4), f"{words[1]} {words[2]}: {done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr

    def yaml(self, program):
        out = self.disk if program == "coordinator" else self.elsewhere
        task = self.folder / "task"
        coordinator = {"payload_segment_bytes": 1 << 20}
        if program != "coordinator":
            coordinator["advertise"] = self.address
        config = {
            "run": {"name": "damage", "steps": self.steps, "checkpoint_interval": 10,
                    "checkpoints": {"keep_last": 5}, "lease_ms": 3000,
                    "data": {"prompts": str(task / "train.jsonl"),
                             "held_out": str(task / "held_out.jsonl")},
                    "model": {"path": str(task / "model")},
                    "sampling": {"group_size": 4, "max_tokens": 8},
                    "batch": {"prompts": PROMPTS, "max_age": 1},
                    "reward": {"verifier": "countdown", "use_all": True},
                    "algorithm": {"advantage": "avspo", "avspo": {"mode": "opposite"}},
                    "optim": {"lr": 3e-4}},
            "local": {"out": str(out), "coordinator": coordinator,
                      "learner": {"collective_timeout_ms": 200000,
                                  "stop_when": {"uninformative_steps": 0}}},
        }
        path = self.folder / f"{program}.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def start(self, program):
        log = open(self.folder / f"{program}.log", "a", encoding="utf-8")
        self.programs[program] = subprocess.Popen(
            [self.bin / program, "--config", self.yaml(program)], stdout=log, stderr=log)

    def start_coordinator(self):
        address = self.disk / "coordinator.address"
        address.unlink(missing_ok=True)
        self.start("coordinator")
        wait_for("the coordinator", lambda: address.exists() or not self.running("coordinator"))
        require(self.running("coordinator"), "the coordinator has ended: " + self.log())
        self.address = address.read_text().strip()

    def running(self, program):
        return self.programs[program].poll() is None

    def keep_running(self, program):
        """What a supervisor does."""
        if not self.running(program) and self.programs[program].returncode != 0:
            require(self.programs[program].returncode != 4, f"{program} has lost data")
            self.start(program)

    def end(self, program, sign):
        self.programs[program].send_signal(sign)
        self.programs[program].wait(PATIENCE_S)

    def log(self):
        return (self.folder / "coordinator.log").read_text()[-2000:]

    def step(self):
        path = self.elsewhere / "steps.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return json.loads(lines[-1])["step"] if lines else 0

    def wait_for_step(self, step):
        def reached():
            for program in ("rollout_worker", "learner"):
                self.keep_running(program)
            return self.step() >= step
        wait_for(f"step {step}", reached)

    def ask(self, sql):
        ledger = sqlite3.connect(f"file:{self.disk}/ledger.db?mode=ro", uri=True, timeout=60)
        try:
            return ledger.execute(sql).fetchall()
        finally:
            ledger.close()

    def audit(self):
        code, text = self.command("ledger", "audit", self.disk, "--learner", self.elsewhere,
                                  "--json")
        return code, json.loads(text)


def flip_payload(run):
    """Of the first group that waits for a plan, while the learner is stopped."""
    ready = ("SELECT group_id, segment, offset, bytes FROM accepted JOIN groups USING (group_id) "
             "WHERE state = 'ready' ORDER BY group_id LIMIT 1")
    learner = run.programs["learner"].pid
    found = []

    def stops_with_one():
        os.kill(learner, signal.SIGSTOP)
        found[:] = run.ask(ready)
        if not found:
            os.kill(learner, signal.SIGCONT)
        return found

    wait_for("a group that waits for a plan", stops_with_one)
    group, segment, offset, size = found[0]
    flip(run.disk / "payloads" / f"{segment:08d}.seg", offset + 32 + size // 2)
    os.kill(learner, signal.SIGCONT)
    wait_for(f"the loss of group {group}",
             lambda: run.ask(f"SELECT 1 FROM drops WHERE group_id = {group}"))
    return {"group": group}


def flip_checkpoint(run):
    run.end("learner", signal.SIGKILL)
    newest = max((run.elsewhere / "checkpoint").glob("step-*"), key=lambda p: int(p.name[5:]))
    weights = newest / "rank-0.safetensors"
    flip(weights, weights.stat().st_size - 3)
    before = run.step()
    run.start("learner")
    aside = newest.with_name("aside-" + newest.name)
    wait_for("the older checkpoint", lambda: aside.exists() or not run.running("learner"))
    run.wait_for_step(before)
    return {"damaged": newest.name, "trained_again_from": int(newest.name[5:]) - 10}


def put_ledger(run, path):
    shutil.copyfile(path, run.disk / "ledger.db")
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (run.disk / name).unlink(missing_ok=True)


def start_from_checkpoint(run):
    """The ledger is lost: a new run begins with the checkpoint before the last."""
    steps = sorted(int(p.name[5:]) for p in (run.elsewhere / "checkpoint").glob("step-*"))
    out = run.folder / "next"
    code, text = run.command("launch", run.yaml("learner"), "--from",
                             f"{run.elsewhere}@{steps[-2]}", "--no-eval",
                             "--set", f"local.out={out}",
                             "--set", "local.launch.learner_ranks=1",
                             "--set", "local.coordinator.advertise=",
                             "--set", f"run.steps={steps[-2] + 5}")
    require(code == 0, f"a new run from a checkpoint ends with {code}: {text}")
    trained = [json.loads(line)["step"] for line in (out / "steps.jsonl").read_text().splitlines()]
    require(trained == list(range(steps[-2] + 1, steps[-2] + 6)), f"it has trained {trained}")
    code, text = run.command("ledger", "audit", out)
    require(code == 0, f"the audit of the new run ends with {code}: {text}")
    return {"from_step": steps[-2], "steps": len(trained)}


def put_old_ledger_back(run, old):
    """The learner refuses it by its checkpoint; then the newest one is put back."""
    for program in ("learner", "rollout_worker", "coordinator"):
        run.end(program, signal.SIGTERM)
    require(not (run.disk / "ledger.db-wal").exists(), "the coordinator has left a log")
    newest = run.folder / "newest.db"
    shutil.copyfile(run.disk / "ledger.db", newest)
    payloads = run.folder / "newest-payloads"
    shutil.copytree(run.disk / "payloads", payloads)
    shutil.copyfile(old, run.disk / "ledger.db")
    run.start_coordinator()
    run.start("learner")
    code = run.programs["learner"].wait(PATIENCE_S)
    require(code == 4, f"an old ledger ends the learner with {code}")
    log = (run.folder / "learner.log").read_text().splitlines()
    told = [line for line in log if "ledger.db is older than the checkpoint" in line]
    require(told, f"the learner does not say what is wrong: {log[-5:]}")
    run.end("coordinator", signal.SIGTERM)
    put_ledger(run, newest)
    shutil.rmtree(run.disk / "payloads")
    shutil.copytree(payloads, run.disk / "payloads")
    run.start_coordinator()
    run.start("rollout_worker")
    run.start("learner")
    return {"exit_code": code, "message": told[-1]}


def fill_disk(run):
    filler = run.disk / "of-another-program"
    fill(filler)
    wait_for("the pause", lambda: "paused" in run.command("status", run.disk)[1])
    time.sleep(10)
    require(run.running("coordinator"), "the coordinator has ended on a full disk")
    filler.unlink()
    return {"paused_s": 10}


def stop_coordinator(run, seconds):
    coordinator = run.programs["coordinator"].pid
    before = run.step()
    os.kill(coordinator, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(coordinator, signal.SIGCONT)
    return {"stopped_s": seconds, "step": before}


def finish(run):
    def ended():
        run.keep_running("rollout_worker")
        run.keep_running("learner")
        return not run.running("learner") and run.programs["learner"].returncode == 0
    wait_for("the end of the run", ended)
    run.end("coordinator", signal.SIGTERM)
    steps = [json.loads(line)["step"]
             for line in (run.elsewhere / "steps.jsonl").read_text().splitlines()]
    require(steps == list(range(1, run.steps + 1)), f"steps are missing or twice: {steps}")
    code, audit = run.audit()
    states = dict(run.ask("SELECT state, COUNT(*) FROM groups GROUP BY state"))
    require(states.get("settled") == run.steps * PROMPTS, f"not every group is settled: {states}")
    require(code == 0, f"the audit ends with {code}: {audit}")
    return {"exit_code": code, "steps": len(steps), "groups": states,
            "dropped": dict(run.ask("SELECT reason, COUNT(*) FROM groups WHERE state = 'dropped' "
                                    "GROUP BY reason")),
            "findings": audit.get("findings", [])}


def damage(run, seconds):
    report = {}
    run.prepare()
    begin = time.monotonic()
    run.start_coordinator()
    run.start("rollout_worker")
    run.start("learner")
    run.wait_for_step(25)
    old = run.folder / "yesterday.db"
    run.end("coordinator", signal.SIGTERM)
    shutil.copyfile(run.disk / "ledger.db", old)
    run.start_coordinator()
    run.wait_for_step(run.step() + 5)
    report["payload"] = flip_payload(run)
    run.wait_for_step(run.step() + 25)
    report["checkpoint"] = flip_checkpoint(run)
    run.wait_for_step(run.step() + 15)
    report["old_ledger"] = put_old_ledger_back(run, old)
    run.wait_for_step(run.step() + 15)
    report["disk"] = fill_disk(run)
    run.wait_for_step(run.step() + 15)
    report["stop"] = stop_coordinator(run, seconds)
    report["end"] = finish(run)
    report["new_run"] = start_from_checkpoint(run)
    report["seconds"] = round(time.monotonic() - begin)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", default="runs/with-damage")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop-seconds", type=int, default=60)
    options = parser.parse_args()
    options.out = os.path.abspath(options.out)
    run = Run(options)
    try:
        print(json.dumps(damage(run, options.stop_seconds), indent=2))
    finally:
        for process in run.programs.values():
            process.send_signal(signal.SIGCONT)
            process.kill()


if __name__ == "__main__":
    main()
