"""Estimators and verdicts of Buttress in verl, which finds them by its configuration alone:

    VERL_USE_EXTERNAL_MODULES=buttress.verl python3 -m verl.trainer.main_ppo \\
      algorithm.adv_estimator=buttress_avspo +algorithm.buttress.avspo.mode=opposite \\
      reward.custom_reward_function.path=pkg://buttress.verl ...

Importing this module registers every estimator of Buttress as buttress_NAME. Its settings are those
of `algorithm.buttress`, as in run.algorithm. A module of verl imports this one in each process.
"""
import functools
import math
from typing import Any, Mapping, Optional

import torch
from verl.trainer.ppo.core_algos import register_adv_est

from . import advantages, verify
from ._library import call


def _plain(settings: Any) -> Any:
    """Dictionaries and values, without the types of OmegaConf."""
    if not hasattr(settings, "items"):
        return settings
    return {name: _plain(value) for name, value in settings.items()}


def compute_advantages(estimator: str, token_level_rewards: torch.Tensor,
                       response_mask: torch.Tensor, index: Any, config: Any = None,
                       **_: Any) -> tuple:
    """Advantages and returns [completions, tokens] as verl's estimators give them: every token of a
    completion has its advantage. Completions with equal `index` are a group; the reward of one is
    the sum over its tokens, and NaN is unscorable."""
    rewards = token_level_rewards.sum(dim=-1).tolist()
    lengths = response_mask.sum(dim=-1).long().tolist()
    groups: dict = {}
    for row, group in enumerate(index):
        groups.setdefault(group, []).append(row)
    settings = _plain((config or {}).get("buttress") or {})
    ours = advantages([[rewards[row] for row in rows] for rows in groups.values()], estimator,
                      lengths=[[lengths[row] for row in rows] for rows in groups.values()],
                      **settings)
    flat = torch.zeros(len(rewards), dtype=torch.float32)
    for rows, values in zip(groups.values(), ours):
        flat[rows] = torch.tensor(values, dtype=torch.float32)
    tokens = flat.to(response_mask.device).unsqueeze(-1) * response_mask
    return tokens, tokens


def compute_score(data_source: str, solution_str: str, ground_truth: Any,
                  extra_info: Optional[Mapping[str, Any]] = None, *, verifier: str = "math",
                  **settings: Any) -> float:
    """The reward of a response, a `custom_reward_function`: 1 or 0, of a weighted sum its value,
    and NaN if unscorable. `reward_kwargs` are `verifier` and the settings of run.reward."""
    row = {name: value for name, value in (extra_info or {}).items()
           if isinstance(value, (str, int, float, bool, list, dict))}
    verdict = verify(solution_str, str(ground_truth), verifier, row=row, source=data_source,
                     **settings)
    return math.nan if verdict.reward is None else float(verdict.reward)


for _name in call("estimators"):
    register_adv_est("buttress_" + _name)(functools.partial(compute_advantages, _name))
