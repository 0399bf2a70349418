"""Trains a small run with all trackers and compares what they show with its steps.jsonl."""

import argparse
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

STEPS = 400
OUT = pathlib.Path("runs/with-trackers")
BIN = pathlib.Path("build/release/bin")
NOT_SHOWN = {"step", "time_unix", "sources", "alarms"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what, condition, seconds, run=None):
    until = time.monotonic() + seconds
    while not condition():
        if run is not None and run.poll() is not None:
            sys.exit(f"trackers: the run ended with {run.returncode} before {what}")
        if time.monotonic() > until:
            sys.exit(f"trackers: {what} not within {seconds} s")
        time.sleep(0.2)


class Mlflow:
    """A server of its own process group, which keeps its runs in a SQLite file."""

    def __init__(self, program):
        self.program, self.port = program, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        log = open(OUT / "mlflow.log", "ab")
        folder = OUT.resolve()
        self.process = subprocess.Popen(
            [self.program, "server", "--host", "127.0.0.1", "--port", str(self.port),
             "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
             "--artifacts-destination", str(folder / "artifacts")],
            stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"})
        wait_until("the MLflow server answered", self.answers, 180)

    def answers(self):
        if self.process.poll() is not None:
            sys.exit(f"trackers: the MLflow server ended; see {OUT}/mlflow.log")
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=2):
                return True
        except OSError:
            return False

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def launch(mlflow):
    return subprocess.Popen(
        [BIN / "buttress", "launch", "configs/quickstart.yaml", "--fresh", "--no-eval",
         "--set", f"local.out={OUT}/run", "--set", f"run.steps={STEPS}",
         "--set", f"local.track.interpreter={sys.executable}",
         "--set", "local.track.tensorboard=true", "--set", f"local.track.mlflow={mlflow.url}",
         "--set", "local.track.wandb=oracle"],
        env={**os.environ, "WANDB_MODE": "offline"})


def steps_ended():
    path = OUT / "run/steps.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def flattened(step):
    """The numbers of a step by the name that a tracker shows, booleans as 0 and 1."""
    values = {}
    for key, value in step.items():
        if key in NOT_SHOWN:
            continue
        for inner, number in value.items() if isinstance(value, dict) else [(None, value)]:
            if number is not None:
                values[f"{key}/{inner}" if inner else key] = float(number)
    for source, numbers in step["sources"].items():
        values[f"sources/{source}/acr"] = numbers["acr"]
        values[f"sources/{source}/groups"] = float(numbers["groups"])
    return values


def steps_of_the_run():
    lines = (OUT / "run/steps.jsonl").read_text().splitlines()
    return {step["step"]: flattened(step) for step in map(json.loads, lines)}


def from_tensorboard():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    reader = EventAccumulator(str(OUT / "run/tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    shown = {}
    for tag in reader.Tags()["scalars"]:
        for event in reader.Scalars(tag):
            shown.setdefault(event.step, {})[tag] = event.value
    return shown


def from_mlflow(mlflow):
    import mlflow as package
    client = package.MlflowClient(mlflow.url)
    run_id = json.loads((OUT / "run/mlflow.json").read_text())["run_id"]
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED", run.info.status
    assert run.data.params["run.steps"] == str(STEPS), run.data.params
    shown = {}
    for metric in run.data.metrics:
        for point in client.get_metric_history(run_id, metric):
            assert metric not in shown.setdefault(point.step, {}), f"{metric} twice"
            shown[point.step][metric] = point.value
    return shown


def records_in(path):
    """Records of a W&B file: LevelDB's log format after 7 bytes of W&B."""
    data, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768  # a header does not cross a block
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield record
            record = b""


def from_wandb():
    from wandb.proto import wandb_internal_pb2
    shown = {}
    for path in sorted(OUT.glob("run/wandb/offline-run-*/*.wandb")):
        for data in records_in(path):
            record = wandb_internal_pb2.Record.FromString(data)
            if record.WhichOneof("record_type") != "history":
                continue
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json)
                   for item in record.history.item}
            assert row["step"] not in shown, f"step {row['step']} twice"
            shown[row["step"]] = row
    return shown


def compare(name, shown, steps, tolerance):
    assert shown.keys() == steps.keys(), f"{name}: steps {sorted(shown)}"
    numbers = 0
    for step, values in steps.items():
        for key, value in values.items():
            found = shown[step].get(key, math.nan)
            if not math.isclose(found, value, rel_tol=tolerance, abs_tol=1e-30):
                sys.exit(f"trackers: {name}, step {step}, {key}: {found} instead of {value}")
            numbers += 1
    print(f"trackers: {name}: {len(steps)} steps, {numbers} numbers equal")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlflow", required=True)
    mlflow = Mlflow(parser.parse_args().mlflow)
    OUT.mkdir(parents=True, exist_ok=True)
    mlflow.start()
    run = launch(mlflow)
    try:
        wait_until("the 10th step ended", lambda: steps_ended() >= 10, 300, run)
        mlflow.kill()
        killed_at = steps_ended()
        wait_until("steps without a server", lambda: steps_ended() >= killed_at + 5, 300,
                   run)
        mlflow.start()
        status = run.wait(timeout=600)
        if status != 0:
            sys.exit(f"trackers: the run ended with {status}")
        print(f"trackers: the server was down from step {killed_at} on")
        steps = steps_of_the_run()
        compare("TensorBoard", from_tensorboard(), steps, 1e-6)  # it keeps float32
        compare("MLflow", from_mlflow(mlflow), steps, 1e-12)
        compare("W&B", from_wandb(), steps, 1e-12)
    finally:
        run.kill()
        mlflow.kill()


if __name__ == "__main__":
    main()
