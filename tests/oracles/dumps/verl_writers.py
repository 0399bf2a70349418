"""verl's writers of rollouts and metrics, executed from the sources of its wheel.

The methods are taken out of their classes, whose modules need Ray. What they read of a batch is
given by plain objects: a DataProto is its tensors and rows, and the TransferQueue of the v1 trainer
is a function that returns the fields of a batch.
"""

import ast
import concurrent.futures
import contextlib
import json
import logging
import os
import pathlib
import types

import numpy as np
import orjson
import torch

WRITERS = {"_write_generations", "_dump_generations", "_init_dump_executor",
           "_shutdown_dump_executor", "_log_rollout_data"}


def definitions(path, names, scope):
    """The classes and functions `names` of a file, executed among the names of `scope`."""
    tree = ast.parse(path.read_text())
    body = [node for node in tree.body if getattr(node, "name", None) in names]
    assert {node.name for node in body} == set(names), f"{path} has no {names}"
    exec(compile(ast.Module(body, []), str(path), "exec"), scope)
    return scope


def methods(path, class_name, names, scope):
    """A class of the methods `names` of a class of a file."""
    tree = ast.parse(path.read_text())
    source = next(node for node in tree.body if getattr(node, "name", None) == class_name)
    body = [node for node in source.body if getattr(node, "name", None) in names]
    assert {node.name for node in body} == names, f"{path} has no {names}"
    alone = ast.ClassDef(class_name, [], [], body, [], type_params=[])
    module = ast.fix_missing_locations(ast.Module([alone], []))
    exec(compile(module, str(path), "exec"), scope)
    return scope[class_name]


class Verl:
    def __init__(self, wheel):
        root = pathlib.Path(wheel) / "verl"
        self.fields = None  # what the queue holds
        scope = {
            "os": os, "json": json, "np": np, "orjson": orjson, "torch": torch,
            "ThreadPoolExecutor": concurrent.futures.ThreadPoolExecutor, "Any": object,
            "DataProto": object, "KVBatchMeta": object, "logger": logging.getLogger("verl"),
            "marked_timer": lambda *_, **__: contextlib.nullcontext(),
            "tq": types.SimpleNamespace(kv_batch_get=lambda **_: dict(self.fields))
        }
        ray = root / "trainer/ppo/ray_trainer.py"
        v1 = root / "trainer/ppo/v1/trainer_base.py"
        self.trainer = methods(ray, "RayPPOTrainer", WRITERS, dict(scope))
        v1_class = next(n.name for n in ast.parse(v1.read_text()).body
                        if isinstance(n, ast.ClassDef) and
                        any(getattr(m, "name", None) == "_log_rollout_data" for m in n.body))
        self.v1_trainer = methods(v1, v1_class, WRITERS, dict(scope))
        self.file_logger = definitions(root / "utils/tracking.py", ["FileLogger"],
                                       dict(scope))["FileLogger"]
        self.metrics = definitions(root / "trainer/ppo/metric_utils.py",
                                   ["_compute_response_info", "compute_data_metrics"],
                                   dict(scope))["compute_data_metrics"]
        replay = (root / "trainer/ppo/v1/replay_buffer.py").read_text()
        assert "/filter_groups/evicted_samples" in replay, "verl names its metric otherwise"


class Batch:
    """What the writers read of a DataProto: tensors, and rows with what is no tensor."""

    def __init__(self, tensors, rows):
        self.batch, self.rows, self.non_tensor_batch = tensors, rows, {}

    def __iter__(self):
        return iter(types.SimpleNamespace(non_tensor_batch=row) for row in self.rows)


def tensors_of(rows, tokenizer):
    """Prompts are padded on the left and responses on the right, scores stand at the last token."""
    prompts = tokenizer([row["prompt"] for row in rows], padding=True, return_tensors="pt")
    tokens = [tokenizer(row["completion"])["input_ids"] or [tokenizer.eos_token_id] for row in rows]
    width = max(map(len, tokens))
    responses = torch.tensor([t + [tokenizer.pad_token_id] * (width - len(t)) for t in tokens])
    mask = torch.tensor([[1] * len(t) + [0] * (width - len(t)) for t in tokens])
    scores = torch.zeros(len(rows), width, dtype=torch.float32)
    for i, row in enumerate(rows):
        scores[i, len(tokens[i]) - 1] = row["score"]
    return {"prompts": prompts["input_ids"], "responses": responses, "response_mask": mask,
            "attention_mask": torch.cat([prompts["attention_mask"], mask], 1),
            "token_level_scores": scores, "token_level_rewards": scores,
            "advantages": scores, "returns": scores}


def write(verl, folder, log, steps, tokenizer, extra, evicted):
    """Dumps steps {step: rows} as verl's Ray trainer does, and logs its metrics of each to `log`.
    `extra(rows)` is what the reward function returned besides the score."""
    trainer = verl.trainer()
    trainer.tokenizer = tokenizer
    trainer._init_dump_executor()
    os.environ["VERL_FILE_LOGGER_PATH"] = str(log)
    logger = verl.file_logger("project", "experiment")
    for step, rows in steps.items():
        trainer.global_steps = step
        batch = Batch(tensors_of(rows, tokenizer),
                      [{"reward_model": {"ground_truth": row["wanted"]}} for row in rows])
        trainer._log_rollout_data(batch, extra(rows), {}, str(folder))
        metrics = verl.metrics(batch, use_critic=False)
        if evicted:
            metrics["training/filter_groups/evicted_samples"] = evicted[step]
        logger.log(metrics, step)
    trainer._shutdown_dump_executor()
    logger.finish()


def write_v1(verl, folder, steps, tokenizer):
    """The same by verl's v1 trainer, which names groups by uid."""
    trainer = verl.v1_trainer()
    trainer.tokenizer = tokenizer
    trainer._init_dump_executor()
    for step, rows in steps.items():
        trainer.global_steps = step
        tensors = tensors_of(rows, tokenizer)
        keys = [row["uid"] for row in rows]
        verl.fields = {
            "uid": np.array(keys), "rm_scores": tensors["token_level_scores"],
            "prompts": torch.nested.as_nested_tensor(list(tensors["prompts"])),
            "responses": torch.nested.as_nested_tensor(list(tensors["responses"])),
            "reward_model": np.array([{"ground_truth": row["wanted"]} for row in rows])
        }
        meta = types.SimpleNamespace(keys=keys, partition_id="train")
        trainer._log_rollout_data(meta, {}, str(folder))
    trainer._shutdown_dump_executor()
