"""Advantage formulas of TRL and verl, executed from their own sources.

verl's core_algos.py is loaded as a module; its imports for configuration and types only are
replaced by empty names. TRL computes advantages in the middle of
GRPOTrainer._generate_and_score_completions: the statements from the unscorable mask to the last
change of `advantages` are extracted and executed.
"""
import ast
import importlib
import importlib.metadata
import importlib.util
import pathlib
import sys
import types

import numpy as np
import torch


def _empty(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


def _package(name, folder):
    _empty(name).__path__ = [str(folder)]


def load_verl(folder):
    """core_algos of the verl whose wheel is unpacked in `folder`."""
    root = pathlib.Path(folder) / "verl"
    _empty("omegaconf", DictConfig=dict)
    _empty("tensordict", TensorDict=dict)
    for name in ("verl", "verl.trainer", "verl.trainer.ppo", "verl.utils", "verl.workers"):
        _package(name, root.joinpath(*name.split(".")[1:]))
    _empty("verl.trainer.config", AlgoConfig=dict)
    _empty("verl.workers.config", ActorConfig=dict)
    _empty("verl.utils.device",
           get_device_name=lambda: "cpu",
           get_torch_device=lambda: torch.cpu,
           is_npu_available=False,
           is_cuda_available=False)
    groupwise = importlib.import_module("verl.utils.groupwise")
    sys.modules["verl.utils"].as_torch_index = groupwise.as_torch_index
    sys.modules["verl.utils"].group_mean_std = groupwise.group_mean_std
    return importlib.import_module("verl.trainer.ppo.core_algos")


def load_trl():
    """Returns f(rewards [N, F], group size, settings) -> (advantages [N], zero deviation [N])."""
    folder = pathlib.Path(importlib.util.find_spec("trl").origin).parent
    tree = ast.parse((folder / "trainer" / "grpo_trainer.py").read_text())
    method = next(n for n in ast.walk(tree)
                  if isinstance(n, ast.FunctionDef) and n.name == "_generate_and_score_completions")

    def assigns(statement, name):
        return isinstance(statement, ast.Assign) and isinstance(
            statement.targets[0], ast.Name) and statement.targets[0].id == name

    first = next(i for i, s in enumerate(method.body) if assigns(s, "unscorable_mask"))
    last = max(i for i, s in enumerate(method.body)
               if assigns(s, "advantages") and "nan_to_num" in ast.unparse(s))
    block = compile(ast.Module(body=method.body[first:last + 1], type_ignores=[]), "trl", "exec")
    utils = ast.parse((folder / "trainer" / "utils.py").read_text())
    nanstd = next(n for n in utils.body if isinstance(n, ast.FunctionDef) and n.name == "nanstd")
    helpers = {"torch": torch}
    exec(compile(ast.Module(body=[nanstd], type_ignores=[]), "trl", "exec"), helpers)

    def advantages(rewards, group_size, weights, scale="group", aggregation="sum_then_normalize"):
        trainer = types.SimpleNamespace(multi_objective_aggregation=aggregation,
                                        scale_rewards=scale,
                                        reward_weights=torch.tensor(weights, dtype=rewards.dtype),
                                        reward_funcs=[None] * rewards.shape[1])
        names = {
            "torch": torch, "nanstd": helpers["nanstd"], "self": trainer,
            "rewards_per_func": rewards, "num_generations": group_size, "device": rewards.device
        }
        exec(block, names)
        return names["advantages"], names["is_std_zero"]

    return advantages


def versions(verl_folder):
    trl = pathlib.Path(importlib.util.find_spec("trl").origin).parent
    return {
        "trl": (trl / "VERSION").read_text().strip() if
               (trl / "VERSION").exists() else importlib.metadata.version("trl"),
        "verl": (pathlib.Path(verl_folder) / "verl" / "version" / "version").read_text().strip(),
        "torch": torch.__version__, "numpy": np.__version__
    }
