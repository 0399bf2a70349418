"""verl's core_algos and rollout_corr_helper as PyPI has them, without the rest of verl.

The packages of verl are entered without their __init__.py, which would need Ray. The other imports
of those two modules are replaced by a stand-in that holds settings.
"""
import importlib
import pathlib
import sys
import types


class ActorConfig(types.SimpleNamespace):
    def get(self, name, default=None):
        return getattr(self, name, default)


class Stranger(types.SimpleNamespace):
    """Any class that is named in an annotation only."""


def _module(name, path=None, **members):
    module = types.ModuleType(name)
    if path is not None:
        module.__path__ = [str(path)]
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def load(wheel_folder):
    """core_algos and rollout_corr_helper of the unpacked wheel."""
    root = pathlib.Path(wheel_folder) / "verl"
    _module("omegaconf", DictConfig=Stranger, open_dict=None)
    _module("tensordict", TensorDict=Stranger)
    _module("verl", root)
    _module("verl.protocol", DataProto=Stranger)
    _module("verl.utils", root / "utils", as_torch_index=None, group_mean_std=None)
    _module("verl.utils.device", get_device_name=lambda: "cpu", get_torch_device=lambda: None)
    _module("verl.trainer", root / "trainer")
    _module("verl.trainer.ppo", root / "trainer" / "ppo")
    _module("verl.trainer.config", AlgoConfig=type("AlgoConfig", (), {}))
    _module("verl.trainer.config.algorithm", RolloutCorrectionConfig=Stranger)
    _module("verl.workers")
    _module("verl.workers.config", ActorConfig=ActorConfig)
    _module("verl.workers.config.actor", PolicyLossConfig=Stranger)
    return (importlib.import_module("verl.trainer.ppo.core_algos"),
            importlib.import_module("verl.trainer.ppo.rollout_corr_helper"))
