"""track.py sends each step once, whatever starts again. The packages of MLflow and W&B are doubles
that keep what they are sent; tests/oracles/trackers runs the real ones."""

import importlib.util
import json
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import types
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[4] / "cli/track/track.py"
spec = importlib.util.spec_from_file_location("track", PROGRAM)
track = importlib.util.module_from_spec(spec)
spec.loader.exec_module(track)


class FakeMlflow(types.ModuleType):
    """A server behind the package `mlflow`: what it is sent, in the order of arrival."""

    def __init__(self):
        super().__init__("mlflow")
        self.metrics, self.params, self.runs, self.status, self.batches = [], {}, 0, None, []
        self.refuses = False
        self.MlflowClient = lambda url: self
        entities = types.ModuleType("mlflow.entities")
        entities.Metric = lambda *values: values
        entities.Param = lambda *values: values
        sys.modules.update({"mlflow": self, "mlflow.entities": entities})

    def steps_of(self, name):
        return [metric[3] for metric in self.metrics if metric[0] == name]

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return "7"

    def create_run(self, experiment, **_):
        self.runs += 1
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="abc"))

    def update_run(self, run_id, status):
        self.status = status

    def set_terminated(self, run_id, status):
        self.status = status

    def log_batch(self, run_id, metrics=(), params=()):
        if self.refuses:
            raise OSError("503 from the server")
        self.metrics += metrics
        self.batches.append(len(metrics))
        self.params.update(params)


class FakeWandb(types.ModuleType):
    def __init__(self):
        super().__init__("wandb")
        self.logged, self.runs, self.exit_code = [], [], None
        self.Settings = lambda **_: None
        sys.modules["wandb"] = self

    def init(self, **arguments):
        self.runs.append(arguments["id"])
        return types.SimpleNamespace(define_metric=lambda *_, **__: None, log=self.logged.append,
                                     finish=self.finish)

    def finish(self, exit_code):
        self.exit_code = exit_code


def step_at(number, seconds, **more):
    return {"step": number, "time_unix": seconds, "acr": 0.5, "importance": {"ess": 0.25},
            "alarms": [], "sources": {}, **more}


class TrackTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name)
        self.mlflow, self.wandb = FakeMlflow(), FakeWandb()

    def spec(self, **more):
        return {"out": self.folder.name, "name": "a run", "settings": {"run.steps": "5"},
                "tensorboard": False, "mlflow": "", "wandb": "", "experiment": "collapse",
                "follow": False, **more}

    def write(self, name, *rows):
        with open(self.out / name, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def server(self):
        return track.Mlflow(self.spec(mlflow="http://host:5000"))

    def finish_run(self):
        with sqlite3.connect(self.out / "ledger.db") as ledger:
            ledger.execute("CREATE TABLE run (finished INTEGER)")
            ledger.execute("INSERT INTO run VALUES (1)")

    def test_what_was_measured_is_shown_at_its_step(self):
        step = step_at(7, 20, fine=True, lost=None, eval={"step": 4, "accuracy": 0.75},
                       sources={"a:b": {"groups": 4, "acr": None, "scorable": 2, "raw_reward": 1.0,
                                        "judged": 0, "correct": 0}})
        self.assertEqual(track.values_of(step), {
            4: {"eval/accuracy": 0.75},
            7: {"acr": 0.5, "importance/ess": 0.25, "fine": True, "sources/a:b/groups": 4,
                "sources/a:b/raw_reward_mean": 0.5}})

    def test_a_start_makes_a_run_and_a_later_one_sends_only_what_is_new(self):
        self.server().add([step_at(1, 10), step_at(2, 11), step_at(3, 12)])
        self.assertEqual(self.mlflow.params, {"run.steps": "5"})
        # Steps 2 and 3 were trained again while no tracker was there.
        self.server().add([step_at(1, 10), step_at(2, 20), step_at(3, 21)])
        self.assertEqual(self.mlflow.steps_of("acr"), [1, 2, 3, 2, 3])
        self.assertEqual((self.mlflow.runs, self.mlflow.status), (1, "RUNNING"))

    def test_many_steps_are_sent_in_batches_that_the_server_takes(self):
        steps = [step_at(i, i, **{f"m{j}": j for j in range(98)}) for i in range(1, 41)]
        self.server().add(steps)
        self.assertEqual(self.mlflow.steps_of("acr"), list(range(1, 41)))
        self.assertLessEqual(max(self.mlflow.batches), 1000)

    def test_a_feed_keeps_the_steps_while_the_server_is_away(self):
        feed = track.Feed(self.server(), self.out)
        self.write("steps.jsonl", step_at(1, 10))
        self.mlflow.refuses = True
        feed.feed_patiently()
        self.mlflow.refuses = False
        self.write("steps.jsonl", step_at(2, 11))
        feed.feed_patiently()
        self.assertEqual(self.mlflow.steps_of("acr"), [], "the server is left alone for a while")
        feed.rest_until = 0
        feed.feed_patiently()
        feed.feed_patiently()
        self.assertEqual(self.mlflow.steps_of("acr"), [1, 2])
        self.mlflow.refuses = True
        self.write("steps.jsonl", step_at(3, 12))
        with self.assertRaisesRegex(track.Failure, "http://host:5000.*503"):
            feed.finish([], True, True)

    def test_an_unfinished_line_waits_and_a_new_file_is_read_from_its_start(self):
        tail = track.Tail(self.out / "steps.jsonl")
        self.assertEqual(tail.next(), [])
        (self.out / "steps.jsonl").write_text('{"step": 1}\n{"st')
        self.assertEqual(tail.next(), [{"step": 1}])
        (self.out / "steps.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
        self.assertEqual(tail.next(), [{"step": 2}])
        (self.out / "new").write_text('{"step": 1}\n')
        (self.out / "new").rename(self.out / "steps.jsonl")
        self.assertEqual(tail.next(), [{"step": 1}])
        self.write("steps.jsonl", {"step": "2"})
        with self.assertRaisesRegex(track.Failure, "steps.jsonl:2: not a JSON object"):
            tail.next()

    def test_evaluations_that_no_step_holds_are_sent_once(self):
        self.write("eval.jsonl", *({"step": s, "time_unix": 30 + s, "accuracy": None,
                                    "completions": 8} for s in (2, 4, 6)))
        self.write("steps.jsonl", step_at(5, 10, eval={"step": 2}),
                   step_at(6, 11, eval={"step": 4}))
        self.assertEqual([row["step"] for row in track.last_evaluations(self.out)], [6])
        for _ in range(2):
            self.server().add_evaluations(track.last_evaluations(self.out))
        self.assertEqual(self.mlflow.steps_of("eval/completions"), [6])
        self.assertEqual(self.mlflow.steps_of("eval/accuracy"), [])

    def test_a_damaged_position_is_not_overwritten(self):
        for text in ("{", '{"url": 1}', "[]"):
            (self.out / "mlflow.json").write_text(text)
            with self.assertRaisesRegex(track.Failure, "mlflow.json is damaged"):
                self.server()
            self.assertEqual((self.out / "mlflow.json").read_text(), text)

    def test_names_have_no_bytes_that_the_server_refuses(self):
        self.server().add([step_at(1, 10, **{"a:b\u00e4": 1, "sources//groups": 2})])
        self.assertEqual(self.mlflow.steps_of("a_b_"), [1])
        self.assertEqual(self.mlflow.steps_of("sources/groups"), [1])

    def test_wandb_gets_each_step_once_in_one_run(self):
        self.write("steps.jsonl", step_at(1, 10))
        track.main(self.spec(wandb="mine"))
        self.write("steps.jsonl", step_at(2, 11))
        self.finish_run()
        track.main(self.spec(wandb="mine", follow=True))
        self.assertEqual([row["step"] for row in self.wandb.logged], [1, 2])
        self.assertEqual(self.wandb.logged[0], {"acr": 0.5, "importance/ess": 0.25, "step": 1,
                                                "_timestamp": 10})
        self.assertEqual((self.wandb.runs, self.wandb.exit_code), ([self.wandb.runs[0]] * 2, 0))

    def test_a_missing_package_is_named_with_the_command_that_installs_it(self):
        ended = subprocess.run([sys.executable, "-I", "-S", PROGRAM, json.dumps(
            self.spec(mlflow="http://host:5000"))], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 2)
        self.assertIn(" E track the Python package mlflow cannot be used", ended.stderr)
        self.assertIn(f"run: {sys.executable} -m pip install mlflow", ended.stderr)

    def test_sigterm_ends_it_with_every_step_sent(self):
        fake = self.out / "wandb.py"
        fake.write_text("import sys\nSettings = dict\ndef init(**_): return sys.modules['wandb']\n"
                        "def define_metric(*_, **__): pass\n"
                        "def finish(exit_code): print(exit_code)\n"
                        "def log(row): print(row['step'], flush=True)\n")
        self.write("steps.jsonl", step_at(1, 10))
        with subprocess.Popen([sys.executable, PROGRAM, json.dumps(
                self.spec(wandb="mine", follow=True))], stdout=subprocess.PIPE, text=True,
                env={"PYTHONPATH": self.folder.name}) as process:
            self.assertEqual(process.stdout.readline(), "1\n")
            self.write("steps.jsonl", step_at(2, 11))
            process.send_signal(signal.SIGTERM)
            text = process.communicate(timeout=60)[0]
        self.assertEqual(text, "2\n1\nWeights & Biases, project mine\n")
        self.assertEqual(process.returncode, 0)


if importlib.util.find_spec("tensorboard"):
    class TensorBoardTest(unittest.TestCase):
        def test_the_same_steps_make_the_same_file_and_a_step_that_comes_again_is_marked(self):
            from tensorboard.backend.event_processing import event_file_loader
            steps = [step_at(1, 10), step_at(2, 11), step_at(2, 20)]
            texts = []
            for parts in ([steps], [steps[:1], steps[1:]]):
                with tempfile.TemporaryDirectory() as folder:
                    writer = track.TensorBoard({"out": folder})
                    for part in parts:
                        writer.add(part)
                    texts.append(pathlib.Path(writer.place).read_bytes())
                    events = list(event_file_loader.EventFileLoader(writer.place).Load())
            self.assertEqual(texts[0], texts[1])
            self.assertEqual([event.step for event in events], [0, 1, 2, 2, 2])
            self.assertEqual(events[3].session_log.status, 1)


if __name__ == "__main__":
    unittest.main()
