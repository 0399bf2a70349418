"""Makes one run of a study: its task's data and cold start, the run, and the evaluations of its
model. Whatever it starts ends when this process ends."""

import hashlib
import json
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import threading
import time

import yaml

import stems
from builds import this_cpu
from failure import Failure
from results import add_result, chosen_value, rounded
from study_file import Evaluation, flat
from trial import Trial, endpoints_of, write_json

# A collapsed run is what a study measures, so none ends before its last step. Nothing of it is
# needed when its measurements are read.
RUN_SETTINGS = {
    "run.deterministic": True, "run.batch.max_age": 0,
    "local.learner.stop_when.uninformative_steps": 0,
    "local.learner.stop_when.unchanged_steps": 0, "local.coordinator.page": "off",
    "local.coordinator.metrics": "off", "local.worker.metrics": "off",
    "local.learner.metrics": "off",
}
LIMIT_S = 4 * 3600  # of one command
TAIL = 2000  # characters of the output of a failed command that are shown


class Programs:
    """Commands of the build whose program `buttress` lies in `folder`."""

    def __init__(self, folder, niceness):
        self.folder, self.niceness = pathlib.Path(folder), niceness
        self.sha256 = self.digest()
        self.running, self.stopped, self.lock = set(), False, threading.Lock()

    def digest(self):
        """Of the programs that make the numbers."""
        digest = hashlib.sha256()
        for name in ("coordinator", "learner", "rollout_worker"):
            try:
                digest.update((self.folder / name).read_bytes())
            except OSError as error:
                raise Failure(f"{error.filename}: cannot be read: {error.strerror}; a study needs "
                              "the full build of deploy/build.sh", 3) from error
        return digest.hexdigest()[:16]

    def stop(self):
        """Ends every command under way; none begins afterwards."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()

    def start(self, command, cwd):
        with self.lock:
            if self.stopped:
                raise Failure("the study was stopped", 3)
            process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       errors="replace")
            self.running.add(process)
            return process

    def run(self, words, cwd):
        """Runs a command to its end."""
        program = self.folder / "buttress" if words[0] == "buttress" else words[0]
        argv = [str(word) for word in (program, *words[1:])]
        # The kernel ends the command when this process dies, and `launch` ends its programs.
        command = ["setpriv", "--pdeathsig", "TERM", "nice", "-n", str(self.niceness),
                   *argv]
        process = self.start(command, cwd)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{shlex.join(argv)}: not done after {LIMIT_S // 3600} hours",
                          3) from error
        finally:
            with self.lock:
                self.running.discard(process)
            process.terminate()  # does nothing to one that has ended
        if process.returncode:
            raise Failure(f"{shlex.join(argv)} ended with status {process.returncode}:\n"
                          f"{output[-TAIL:]}", 3)


def filled(value, places):
    """Replaces {data}, {study} and {seed} in every text of a tree."""
    if isinstance(value, dict):
        return {key: filled(inner, places) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, places) for inner in value]
    if isinstance(value, str):
        for key, text in places.items():
            value = value.replace("{" + key + "}", str(text))
    return value


def nested(settings):
    """{"run.steps": 3} as {"run": {"steps": 3}}."""
    tree = {}
    for name, value in settings.items():
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


class Executor:
    """Thread-safe. Files that may be lost are below `work`."""

    def __init__(self, study, programs, work, keep_runs):
        self.study, self.programs, self.keep_runs = study, programs, keep_runs
        self.work = pathlib.Path(work).resolve()
        self.identity = {"programs": programs.sha256, "cpu": this_cpu()}
        self.locks, self.locks_lock = {}, threading.Lock()

    def lock_of(self, key):
        with self.locks_lock:
            return self.locks.setdefault(key, threading.Lock())

    def places(self, data, seed):
        return {"data": data, "seed": seed, "study": self.study.path.resolve().parent}

    def evaluate(self, config, model, evaluation, seed, out):
        """The accuracy, or pass@k, of a model folder by a run's settings at temperature 1."""
        limit = ["--limit", evaluation.limit] if evaluation.limit else []
        self.programs.run(
            ["buttress", "eval", "--config", config, "--model", model, "--prompts",
             evaluation.prompts, "--completions", evaluation.completions, "--temperature", 1,
             "--k", evaluation.k, "--seed", seed, "--threads", 1, *limit, "--json", "--out", out],
            self.work)
        return json.loads(out.read_text())["pass_at_k"][str(evaluation.k)]["mean"]

    def data_folder(self, task_name, seed):
        recipe = json.dumps(self.study.tasks[task_name].make).encode()
        return self.work / "data" / f"{task_name}-{hashlib.sha256(recipe).hexdigest()[:12]}-{seed}"

    def data_of(self, task_name, seed):
        """Makes data and cold start of a seed, once for all its arms, and returns the folder."""
        task = self.study.tasks[task_name]
        folder = self.data_folder(task_name, seed)
        with self.lock_of(folder):
            if not folder.exists():
                unfinished = pathlib.Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.work))
                for command in task.make:
                    words = filled(shlex.split(command), self.places(unfinished, seed))
                    self.programs.run(words, self.work)
                folder.parent.mkdir(exist_ok=True)
                unfinished.rename(folder)
        return folder

    def settings(self, trial):
        """(all settings, those in which the arms differ)."""
        own = dict(self.study.arms[trial.arm])
        if self.study.tuned:
            value = trial.value
            own[self.study.tuned] = chosen_value(self.study, trial.task, trial.arm) \
                if value is None else value
        return {**flat(self.study.base), **self.study.tasks[trial.task].settings, **own,
                **RUN_SETTINGS, **stems.checkpoints(self.study, trial),
                "run.name": self.study.name, "run.seed": trial.seed}, own

    def cold_accuracy(self, config, settings, data):
        """Of the start model, which the arms of a seed share."""
        evaluation = Evaluation(settings["run.data.held_out"],
                                limit=int(settings.get("run.eval.prompts", 0)))
        known = hashlib.sha256(json.dumps([vars(evaluation), settings["run.model.path"]]).encode())
        path = data / f"cold-{known.hexdigest()[:12]}.json"
        with self.lock_of(path):
            if not path.exists():
                value = self.evaluate(config, settings["run.model.path"], evaluation,
                                      settings["run.seed"], config.with_name("cold.json"))
                write_json(path, value)
        return json.loads(path.read_text())

    def stem_folder(self, trial: Trial):
        name = trial.title.replace(" ", "-")
        return self.work / "stems" / f"{name}-{self.study.sha256[:12]}-{self.programs.sha256}"

    def stem_of(self, trial: Trial):
        """(result, folder) of a run that forks begin with."""
        folder = self.stem_folder(trial)
        with self.lock_of(folder):
            if not folder.exists():
                result, made = self.measure(trial, self.data_of(trial.task, trial.seed))
                write_json(made / "result.json", result)
                folder.parent.mkdir(exist_ok=True)
                made.rename(folder)
        return json.loads((folder / "result.json").read_text()), folder

    def measure(self, trial: Trial, data):
        """Makes the run from the data and cold start in a folder; returns (its result, folder)."""
        fork, stem, origin = self.study.forks.get(trial.arm), None, []
        if fork:
            stem = self.stem_of(stems.stem_trial(self.study, trial))[1] / "out", fork.step
            origin = ["--from", f"{stem[0]}@{fork.step}"]
        begin = time.monotonic()
        settings, own = self.settings(trial)
        places = self.places(data, trial.seed)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.work))
        settings = filled({**settings, "local.out": str(folder / "out")}, places)
        config = folder / "run.yaml"
        config.write_text(yaml.safe_dump(nested(settings), sort_keys=False))
        self.programs.run(["buttress", "launch", config, "--no-eval", *origin], self.work)
        endpoints, curve = endpoints_of(folder / "out", int(settings["run.steps"]),
                                        int(settings["run.eval.every"]), stem)
        endpoints["cold"] = self.cold_accuracy(config, settings, data)
        for name, evaluation in self.study.tasks[trial.task].evaluations.items():
            evaluation = Evaluation(**filled(vars(evaluation), places))
            endpoints[name] = self.evaluate(config, folder / "out/model", evaluation, trial.seed,
                                            folder / f"{name}.json")
        start = json.loads((folder / "out/versions.json").read_text())["starts"][-1]
        return {
            "study": self.study.name, "study_sha256": self.study.sha256, "task": trial.task,
            "arm": trial.arm, "seed": trial.seed,
            **({} if trial.value is None else {"value": trial.value}),
            **({"from": vars(fork)} if fork else {}), "settings": own,
            "build": {**self.identity, "commit": start["buttress"]["commit"][:12]},
            "seconds": round(time.monotonic() - begin, 1), "endpoints": rounded(endpoints),
            "curve": rounded(curve)}, folder

    def put_away(self, trial: Trial, folder):
        """A run whose result is known is deleted, or kept as the user wants it."""
        if self.keep_runs:
            kept = self.work / "runs" / trial.title.replace(" ", "-")
            kept.parent.mkdir(exist_ok=True)
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)
        else:
            shutil.rmtree(folder)

    def put_away_stem(self, trial: Trial):
        """Once no fork needs it any more."""
        stem = stems.stem_trial(self.study, trial)
        if stem and stems.is_done(self.study, stem):
            folder = self.stem_folder(stem)
            with self.lock_of(folder):
                if folder.exists():
                    self.put_away(stem, folder)

    def run(self, trial: Trial):
        """Makes the run, writes its result and returns it."""
        if stems.is_stem(self.study, trial):
            result, _ = self.stem_of(trial)
            add_result(self.study, trial, result)
        else:
            result, folder = self.measure(trial, self.data_of(trial.task, trial.seed))
            add_result(self.study, trial, result)
            self.put_away(trial, folder)
        self.put_away_stem(trial)
        return result

    def repeat(self, trial: Trial):
        """The result of a finished run, made again with data and cold start of this build."""
        shutil.rmtree(self.data_folder(trial.task, trial.seed), ignore_errors=True)
        result, folder = self.measure(trial, self.data_of(trial.task, trial.seed))
        shutil.rmtree(folder)
        self.put_away_stem(trial)
        return result
