"""Shows the curves of a run in TensorBoard, MLflow and Weights & Biases; `buttress track` runs it.

track.py SPEC   SPEC is a JSON object: out, name, settings, tensorboard, mlflow, wandb, experiment
                and follow

Ends with status 2 for a package that is missing, 3 for a server that cannot be reached and 4 for a
damaged file of the run.
"""

import contextlib
import importlib
import io
import json
import math
import os
import pathlib
import re
import secrets
import signal
import sqlite3
import sys
import threading
import time
import urllib.parse

POLL_S = 1
LONGEST_REST_S = 30  # between two attempts to reach a server
LAST_EVALUATIONS_S = 3600  # nobody may be there to evaluate what waits when the run has finished
METRICS_OF_A_BATCH, SETTINGS_OF_A_BATCH, BYTES_OF_A_SETTING = 1000, 100, 500  # bounds of MLflow
NOT_SHOWN = ("step", "time_unix", "sources", "alarms")


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def log(level, text):
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    print(now, level, "track", " ".join(str(text).split())[:600], file=sys.stderr, flush=True)


def package(name, module=None):
    try:
        return importlib.import_module(module or name)
    except ImportError as error:
        raise Failure(2, f"the Python package {name} cannot be used ({error}); run: "
                      f"{sys.executable} -m pip install {name}") from error


def is_measured(value):
    return isinstance(value, (bool, int, float)) and math.isfinite(value)


def values_of(step):
    """{step that the values are of: {name: value}}: an evaluation is of an earlier step than the
    one that holds it."""
    values = {step["step"]: {}}
    for key, value in step.items():
        if key in NOT_SHOWN:
            continue
        of = step["step"]
        inner = {f"{key}/{name}": number for name, number in value.items()} \
            if isinstance(value, dict) else {key: value}
        if key == "eval":
            of = inner.pop("eval/step", None)
            if of is None:
                continue
        values.setdefault(of, {}).update((k, v) for k, v in inner.items() if is_measured(v))
    for source, sums in step.get("sources", {}).items():
        shares = {"groups": sums["groups"], "acr": sums["acr"]}
        if sums["scorable"]:
            shares["raw_reward_mean"] = sums["raw_reward"] / sums["scorable"]
        if sums["judged"]:
            shares["accuracy"] = sums["correct"] / sums["judged"]
        values[step["step"]].update(
            (f"sources/{source}/{k}", v) for k, v in shares.items() if is_measured(v))
    return dict(sorted(values.items()))


def values_of_evaluation(row):
    names = ("accuracy", "raw_reward_mean", "completions", "truncated_share")
    return {row["step"]: {f"eval/{k}": row[k] for k in names if is_measured(row.get(k))}}


def parse(path, number, line):
    try:
        row = json.loads(line)
        if isinstance(row["step"], int):
            return row
    except (ValueError, KeyError, TypeError):
        pass
    raise Failure(4, f"{path}:{number}: not a JSON object with an integer 'step'")


class Tail:
    """Reads what is added to a file of rows, and all of one that takes its place."""

    def __init__(self, path):
        self.path, self.file, self.offset, self.lines = path, None, 0, 0

    def next(self):
        try:
            with open(self.path, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self.file:
                    self.file, self.offset, self.lines = inode, 0, 0
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[:text.rfind(b"\n") + 1]
        rows = []
        for line in whole.splitlines():
            self.lines += 1
            rows.append(parse(self.path, self.lines, line))
        self.offset += len(whole)
        return rows


def last_evaluations(out):
    """Those that no step holds, which ended after the last step. A row makes those before it of
    the same and of later steps void."""
    rows = []
    for row in Tail(out / "eval.jsonl").next():
        rows = [before for before in rows if before["step"] < row["step"]] + [row]
    held = [(step.get("eval") or {}).get("step") or 0 for step in Tail(out / "steps.jsonl").next()]
    return [row for row in rows if row["step"] > max(held, default=0)]


class TensorBoard:
    """Writes one event file, which the same steps make byte for byte again: it is written anew from
    the first step at each start, and a TensorBoard that has it open continues to read."""

    def __init__(self, spec):
        self.records = package("tensorboard", "tensorboard.summary.writer.record_writer")
        self.event = package("tensorboard", "tensorboard.compat.proto.event_pb2")
        folder = pathlib.Path(spec["out"], "tensorboard")
        folder.mkdir(parents=True, exist_ok=True)
        self.place = str(folder / "events.out.tfevents.0.buttress")
        pathlib.Path(self.place).unlink(missing_ok=True)
        self.bytes, self.last_step = 0, None
        self.append([self.event.Event(file_version="brain.Event:2")])

    def append(self, events):
        buffer = io.BytesIO()
        writer = self.records.RecordWriter(buffer)
        for event in events:
            writer.write(event.SerializeToString())
        with open(self.place, "ab") as file:
            file.truncate(self.bytes)  # what an attempt that failed has left
            file.write(buffer.getvalue())
        self.bytes += len(buffer.getvalue())

    def events(self, values, wall_time):
        for step, scalars in values.items():
            event = self.event.Event(wall_time=wall_time, step=step)
            for name, value in scalars.items():
                event.summary.value.add(tag=name, simple_value=value)
            yield event

    def add(self, steps):
        events, last = [], self.last_step
        for step in steps:
            if last is not None and step["step"] <= last:  # it takes the place of the later ones
                again = self.event.Event(wall_time=step["time_unix"], step=step["step"])
                again.session_log.status = self.event.SessionLog.START
                events.append(again)
            events += self.events(values_of(step), step["time_unix"])
            last = step["step"]
        self.append(events)
        self.last_step = last

    def add_evaluations(self, rows):
        self.append([event for row in rows
                     for event in self.events(values_of_evaluation(row), row["time_unix"])])

    def end(self, finished):
        pass


class Server:
    """What MLflow and W&B have in common: <out>/NAME.json remembers the run of the server and the
    last step that it has, so that a start sends only what is new. A run of another server is
    left alone. A step that is trained again is added to the points of before."""

    def __init__(self, name, url, spec):
        self.spec, self.url, self.is_open = spec, url, False
        self.path = pathlib.Path(spec["out"], name + ".json")
        new = {"url": url, "run_id": "", "last_step": 0, "last_time_unix": 0,
               "last_eval_time_unix": 0}
        self.state = new
        try:
            state = {**new, **json.loads(self.path.read_text())}
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            state = {}
        if any(not isinstance(state.get(key), (type(value), float) if value == 0 else str)
               for key, value in new.items()):
            raise Failure(4, f"{self.path} is damaged; delete it, and the steps go to a new run of "
                          "the server")
        if state["url"] == url:
            self.state = state

    def save(self, **changes):
        self.state.update(changes)
        unfinished = self.path.with_suffix(".json.new")
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(json.dumps(self.state) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path)

    def ready(self, first_time):
        if not self.is_open:
            self.open(first_time)
            self.is_open = True

    def send_steps(self, batch):
        if batch:
            self.ready(batch[0][0]["time_unix"])
            self.send([(step["time_unix"], values) for step, values in batch])
            last = batch[-1][0]
            self.save(last_step=last["step"], last_time_unix=last["time_unix"])

    def add(self, steps):
        batch, metrics = [], 0
        for step in steps:
            # A step that is trained again has an earlier number and a later time.
            if (step["step"] <= self.state["last_step"]
                    and step["time_unix"] <= self.state["last_time_unix"]):
                continue
            values = values_of(step)
            count = sum(map(len, values.values()))
            if metrics + count > METRICS_OF_A_BATCH:
                self.send_steps(batch)
                batch, metrics = [], 0
            batch.append((step, values))
            metrics += count
        self.send_steps(batch)

    def add_evaluations(self, rows):
        for row in rows:
            if row["time_unix"] > self.state["last_eval_time_unix"]:
                self.ready(row["time_unix"])
                self.send([(row["time_unix"], values_of_evaluation(row))])
                self.save(last_eval_time_unix=row["time_unix"])


def mlflow_name(name):
    """A name without what the server refuses: other bytes become '_', an empty part goes."""
    return re.sub("/{2,}", "/", re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII))


class Mlflow(Server):
    """A run of an MLflow server; the package reads MLFLOW_TRACKING_TOKEN."""

    def __init__(self, spec):
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # Feed tries again
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        self.mlflow = package("mlflow")
        self.entities = package("mlflow", "mlflow.entities")
        super().__init__("mlflow", spec["mlflow"], spec)
        self.client = self.mlflow.MlflowClient(self.url)
        self.place = f"{self.url}, experiment {spec['experiment']}"

    def open(self, first_time):
        if self.state["run_id"]:
            self.client.update_run(self.state["run_id"], status="RUNNING")
            return
        name = self.spec["experiment"]
        experiment = self.client.get_experiment_by_name(name)
        identity = experiment.experiment_id if experiment else self.client.create_experiment(name)
        run_id = self.client.create_run(identity, start_time=int(first_time * 1000),
                                        run_name=self.spec["name"],
                                        tags={"mlflow.source.name": "buttress"}).info.run_id
        params = [self.entities.Param(key, value[:BYTES_OF_A_SETTING])
                  for key, value in self.spec["settings"].items()]
        for begin in range(0, len(params), SETTINGS_OF_A_BATCH):
            self.client.log_batch(run_id, params=params[begin:begin + SETTINGS_OF_A_BATCH])
        self.save(run_id=run_id)

    def send(self, rows):
        self.client.log_batch(self.state["run_id"], [
            self.entities.Metric(mlflow_name(name), float(value), int(seconds * 1000), step)
            for seconds, values in rows for step, scalars in values.items()
            for name, value in scalars.items()])

    def end(self, finished):
        if self.state["run_id"]:
            self.client.set_terminated(self.state["run_id"], "FINISHED" if finished else "KILLED")


class Wandb(Server):
    """A run of Weights & Biases; the package reads WANDB_API_KEY, WANDB_ENTITY and WANDB_MODE."""

    def __init__(self, spec):
        self.wandb = package("wandb")
        super().__init__("wandb", spec["wandb"], spec)
        self.place = f"Weights & Biases, project {self.url}"
        self.run = None

    def open(self, first_time):
        if not self.state["run_id"]:
            self.save(run_id=secrets.token_hex(4))
        self.run = self.wandb.init(
            project=self.url, id=self.state["run_id"], resume="allow", name=self.spec["name"],
            config=self.spec["settings"], dir=self.spec["out"],
            settings=self.wandb.Settings(init_timeout=30, silent=True))
        self.run.define_metric("*", step_metric="step")  # a step may come again

    def send(self, rows):
        for seconds, values in rows:
            for step, scalars in values.items():
                self.run.log({**scalars, "step": step, "_timestamp": seconds})

    def end(self, finished):
        if self.run:
            self.run.finish(exit_code=0 if finished else 1)


class Feed:
    """Gives a tracker the steps that it lacks. A server that cannot be reached is left alone for up
    to half a minute and then asked again; the log says so once."""

    def __init__(self, tracker, out):
        self.tracker, self.tail = tracker, Tail(out / "steps.jsonl")
        self.pending, self.rest_s, self.rest_until = [], 0, 0

    def feed(self):
        self.pending = self.pending or self.tail.next()
        if self.pending:
            self.tracker.add(self.pending)
            self.pending = []

    def feed_patiently(self):
        now = time.monotonic()
        if now < self.rest_until:
            return
        try:
            self.feed()
            self.rest_s = 0
        except Failure:
            raise
        except Exception as error:  # pylint: disable=broad-except
            if not self.rest_s:
                log("W", f"{self.tracker.place} does not take the steps; trying again: {error}")
            self.rest_s = min(2 * self.rest_s or 1, LONGEST_REST_S)
            self.rest_until = now + self.rest_s

    def finish(self, evaluations, finished, ended):
        try:
            self.feed()
            self.tracker.add_evaluations(evaluations)
            if ended:
                self.tracker.end(finished)
        except Failure:
            raise
        except Exception as error:  # pylint: disable=broad-except
            raise Failure(3, f"{self.tracker.place}: {error}") from error
        print(self.tracker.place, flush=True)


def is_finished(out):
    """Whether the last step is behind a checkpoint. A ledger that is on another machine, or not
    there yet, does not say so."""
    ledger = f"file:{urllib.parse.quote(str(out / 'ledger.db'))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(ledger, uri=True)) as connection:
            row = connection.execute("SELECT finished FROM run").fetchone()
    except sqlite3.Error:
        return False
    return bool(row and row[0])


def follow(out, feeds, stop):
    finished_at = None
    while not stop.is_set():
        if is_finished(out):
            finished_at = finished_at or time.monotonic()
            waiting = (out / "evals").is_dir() and any((out / "evals").glob("v*.*"))
            if not waiting or time.monotonic() - finished_at > LAST_EVALUATIONS_S:
                return
        for feed in feeds:
            feed.feed_patiently()
        stop.wait(POLL_S)


def main(spec):
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    out = pathlib.Path(spec["out"])
    kinds = {"tensorboard": TensorBoard, "mlflow": Mlflow, "wandb": Wandb}
    feeds = [Feed(kind(spec), out) for name, kind in kinds.items() if spec[name]]
    if spec["follow"]:
        follow(out, feeds, stop)
    finished = is_finished(out)
    # A run that ends early has a trained model, and no last step.
    evaluations = last_evaluations(out) if finished or (out / "model").exists() else []
    for feed in feeds:
        feed.finish(evaluations, finished, finished or spec["follow"])


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (Failure, OSError) as failure:
        log("E", failure)
        sys.exit(getattr(failure, "status", 3))
