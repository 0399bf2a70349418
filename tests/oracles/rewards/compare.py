"""Reward functions under TRL's _calculate_rewards, verl's reward manager and ours.

compare.py REWARDS_ORACLE VERL_WHEEL

Each function of functions.py is called by the code of its trainer and by ours with the same rows.
The arguments that it recorded and its rewards must be equal. Where the trainer fails, or TRL has
NaN for None, our verdict must be none, with the reason.
"""
import asyncio
import importlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
FUNCTIONS = HERE / "functions.py"
STEP, STEPS = 3, 10
sys.path.insert(0, str(HERE))
functions = importlib.import_module("functions")

TEXTS = [("7", "7", 1), ("8", "7", 2), ("a\u00e9", "a\u00e9", 1)]  # completion, solution, level
TRL = ["trl_sync", "trl_async", "trl_some", "trl_object", "trl_raises", "trl_short"]
VERL = ["verl_number", "verl_dict", "verl_async", "verl_raises"]


def trl_rows(chat):
    for text, solution, level in TEXTS:
        prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
        yield {"prompt": prompt if chat else "q", "solution": solution, "level": level,
               "answer": solution}, text


def trl_rewards(name, chat):
    """What GRPOTrainer computes with this one function."""
    from transformers import TrainerState
    from trl.trainer import grpo_trainer

    rows, texts = zip(*trl_rows(chat))
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    self = types.SimpleNamespace(
        accelerator=types.SimpleNamespace(device="cpu", is_main_process=False),
        args=types.SimpleNamespace(report_to=[]), reward_funcs=[getattr(functions, name)],
        reward_processing_classes=[None], reward_func_names=[name], environments=None,
        state=TrainerState(global_step=STEP, max_steps=STEPS), async_loop=loop,
        _log_completion_extra=lambda column, values: None, _log_metric=lambda name, value: None)
    completions = [[{"role": "assistant", "content": text}] if chat else text for text in texts]
    calculate = grpo_trainer.GRPOTrainer._calculate_rewards
    rewards = getattr(calculate, "__wrapped__", calculate)(
        self, list(rows), [row["prompt"] for row in rows], completions, ids_of(texts))
    loop.call_soon_threadsafe(loop.stop)
    return [None if math.isnan(x) else x for x in rewards[:, 0].tolist()]


def ids_of(texts):
    return [[ord(c) for c in text] for text in texts]


def verl_rows():
    for i, (text, solution, _) in enumerate(TEXTS):
        yield {"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "q"}],
               "reward_model": {"style": "rule", "ground_truth": solution},
               "extra_info": {"index": i, "split": "train"}}, text
    yield {"data_source": "other", "prompt": [{"role": "user", "content": "q"}],
           "reward_model": {"ground_truth": {"target": [1, 2]}}, "extra_info": {"index": 9}}, "x"


def _module(name, path=None, **members):
    module = types.ModuleType(name)
    if path is not None:
        module.__path__ = [str(path)]
    module.__dict__.update(members)
    sys.modules[name] = module


def load_verl(wheel):
    """verl's loader of functions and its reward manager, its packages entered without __init__.py.

    verl is installed without its dependencies; what these modules import and do not use here is
    replaced by empty names.
    """
    root = pathlib.Path(wheel) / "verl"
    loop = asyncio.new_event_loop()
    _module("omegaconf", DictConfig=dict)
    _module("verl", root, DataProto=list)
    _module("verl.utils", root / "utils")
    _module("verl.utils.ray_utils", get_event_loop=lambda: loop)
    for package in ("trainer", "trainer/ppo", "experimental", "experimental/reward_loop"):
        _module("verl." + package.replace("/", "."), root / package)
    managers = "verl.experimental.reward_loop.reward_manager"
    _module(managers, root / "experimental/reward_loop/reward_manager")
    registry = importlib.import_module(managers + ".registry")
    sys.modules[managers].__dict__.update(
        register=registry.register, get_reward_manager_cls=registry.get_reward_manager_cls)
    importlib.import_module(managers + ".naive")
    return importlib.import_module("verl.trainer.ppo.reward"), loop


class Row:
    """A DataProto of one row, as the agent loop hands it to the reward manager."""

    def __init__(self, row, text):
        ids = torch.tensor(ids_of([text])[0])
        self.batch = {"responses": ids, "attention_mask": torch.ones_like(ids)}
        self.non_tensor_batch = {**json.loads(json.dumps(row)), "__num_turns__": 2}

    def __getitem__(self, index):
        return self


def verl_rewards(name, peer):
    reward, loop = peer
    manager = types.SimpleNamespace(source="register", name="naive")
    settings = types.SimpleNamespace(
        reward_manager=manager,
        get=lambda key: {"custom_reward_function": {"path": str(FUNCTIONS), "name": name}}.get(key))
    tokenizer = types.SimpleNamespace(
        decode=lambda ids, skip_special_tokens: "".join(map(chr, ids.tolist())))
    made = reward.load_reward_manager(types.SimpleNamespace(reward=settings), tokenizer)
    rewards = []
    for row, text in verl_rows():
        result = loop.run_until_complete(made.run_single(Row(row, text)))
        rewards.append(float(result["reward_score"]))
    return rewards


def our_rewards(oracle, name, rows, answer_of, source_of):
    items = [{"prompt": "rendered", "response": text, "answer": answer_of(row),
              "source": source_of(row), "row": row, "token_ids": ids_of([text])[0]}
             for row, text in rows]
    batch = {"verifier": f"python:{FUNCTIONS}:{name}", "step": STEP, "steps": STEPS, "items": items}
    done = subprocess.run([oracle], input=json.dumps(batch) + "\n", text=True, check=True,
                          stdout=subprocess.PIPE, timeout=300)
    return json.loads(done.stdout)


def recorded(call):
    """The result of `call`, or its exception, and the calls that functions recorded meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "record.jsonl"
        path.touch()
        os.environ["REWARD_RECORD"] = str(path)
        try:
            result = call()
        except Exception as error:
            result = error
        return result, [json.loads(line) for line in path.read_text().splitlines()]


def compare(what, theirs, ours, their_calls, our_calls):
    assert not isinstance(ours, Exception), ours
    assert our_calls == their_calls, f"{what}: called with\n{our_calls}\ninstead of\n{their_calls}"
    if isinstance(theirs, Exception):
        assert all(v["reward"] is None and str(theirs.args[0])[:9] in v["reason"] or
                   v["reason"].startswith(type(theirs).__name__) for v in ours), (theirs, ours)
        assert not any(v["not_applicable"] for v in ours), ours
        print(f"{what}: fails with {type(theirs).__name__} there, no verdict here")
        return
    assert len(theirs) == len(ours), (theirs, ours)
    for x, verdict in zip(theirs, ours):
        if x is None:
            assert verdict["reward"] is None and verdict["not_applicable"], verdict
        else:
            assert math.isclose(x, verdict["reward"], rel_tol=1e-6), (what, x, verdict)
    print(f"{what}: {len(theirs)} rewards equal, {len(their_calls)} recorded calls equal")


def main(oracle, wheel):
    for name in TRL:
        for chat in (False, True):
            theirs = recorded(lambda: trl_rewards(name, chat))
            ours = recorded(lambda: our_rewards(oracle, name, trl_rows(chat),
                                                lambda row: row["answer"], lambda row: "default"))
            compare(f"{name} {'chat' if chat else 'text'}", theirs[0], ours[0], theirs[1], ours[1])
    peer = load_verl(wheel)

    def answer_of(row):
        truth = row["reward_model"]["ground_truth"]
        return truth if isinstance(truth, str) else json.dumps(truth)

    for name in VERL:
        theirs = recorded(lambda: verl_rewards(name, peer))
        ours = recorded(lambda: our_rewards(oracle, name, verl_rows(), answer_of,
                                            lambda row: row["data_source"]))
        compare(name, theirs[0], ours[0], theirs[1], ours[1])


main(sys.argv[1], sys.argv[2])
