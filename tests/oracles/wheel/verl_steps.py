"""Steps of verl's trainer with the Python package of Buttress as its plug-in.

    verl_steps.py VERL_FOLDER

buttress.verl registers its estimators with verl's. verl's own functions, executed from its sources,
load the reward function and compute the advantages of a batch and the policy loss; a table of
logits stands for the model, because verl's rollouts and workers need a GPU.
"""
import ast
import pathlib
import subprocess
import sys
import types
from typing import Optional

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "estimators"))
import peers  # noqa: E402

core_algos = peers.load_verl(sys.argv[1])

import buttress.verl  # noqa: E402, F401: registers its estimators
from verl.utils.import_utils import load_extern_object  # noqa: E402

GROUP, TOKENS, STEPS = 8, 3, 30
ANSWERS = ["4", "7", "1", "9", "3", "12"]  # of the prompts; only digits can be said


def require(holds, what):
    if not holds:
        raise SystemExit(f"wheel: {what}")


class Actor(types.SimpleNamespace):
    """The fields of verl's ActorConfig that its loss reads."""

    def get(self, name, default):
        return getattr(self, name, default)


def load_compute_advantage(folder):
    """compute_advantage of verl's trainer, whose module imports Ray and more."""
    path = pathlib.Path(folder) / "verl/trainer/ppo/ray_trainer.py"
    function = next(node for node in ast.parse(path.read_text()).body
                    if isinstance(node, ast.FunctionDef) and node.name == "compute_advantage")
    names = {"core_algos": core_algos, "AdvantageEstimator": core_algos.AdvantageEstimator,
             "Optional": Optional, "AlgoConfig": dict, "DataProto": object}
    exec(compile(ast.Module(body=[function], type_ignores=[]), str(path), "exec"), names)
    return names["compute_advantage"]


compute_advantage = load_compute_advantage(sys.argv[1])


def advantages(rewards, mask, estimator, **settings):
    """[completions], of verl's trainer; rewards [prompts, GROUP]."""
    flat = rewards.reshape(-1)
    token_level = torch.zeros_like(mask)
    token_level[torch.arange(len(flat)), mask.sum(dim=1).long() - 1] = flat
    uid = np.repeat([f"prompt-{i}" for i in range(len(rewards))], GROUP).astype(object)
    data = types.SimpleNamespace(
        batch={"token_level_rewards": token_level, "response_mask": mask},
        non_tensor_batch={"uid": uid})
    config = {"adv_estimator": estimator, "buttress": settings}
    done = compute_advantage(data, adv_estimator=estimator, config=config).batch
    require(bool(((done["advantages"] != 0) <= (mask > 0)).all()), "padding has an advantage")
    return done["advantages"]


def lengths_mask(generator, completions):
    lengths = torch.randint(1, TOKENS + 1, (completions, 1), generator=generator)
    return (torch.arange(TOKENS) < lengths).float()


def compare_with_verl(generator):
    """The greatest difference from verl's own formulas, on random batches."""
    apart = 0.0
    for _ in range(50):
        rewards = torch.randint(0, 3, (16, GROUP), generator=generator) / 2
        mask = lengths_mask(generator, rewards.numel())
        for name, settings in {"grpo": {"eps": 1e-6}, "rloo": {}}.items():
            ours = advantages(rewards, mask, "buttress_" + name, **settings)
            apart = max(apart, float((ours - advantages(rewards, mask, name)).abs().max()))
    return apart


def train(estimator, score, **settings):
    """Accuracy of the last step, and the constant groups that AVSPO pushed, right ones and all."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.zeros(len(ANSWERS), 10, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.2)
    actor = Actor(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, global_batch_info={})
    loss_of = core_algos.get_policy_loss_fn("vanilla")
    accuracy, pushed, constant = 0.0, 0, 0
    for _ in range(STEPS):
        said = torch.multinomial(logits.softmax(1), GROUP, replacement=True, generator=generator)
        rewards = torch.tensor([[score("", f"\\boxed{{{digit}}}", gold) for digit in row]
                                for row, gold in zip(said.tolist(), ANSWERS)])
        mask = torch.ones(rewards.numel(), 1)
        batch = advantages(rewards, mask, estimator, **settings)
        for row, group in zip(rewards, batch.view_as(rewards)):
            if row.min() == row.max():
                constant += 1
                pushed += int((group > 0).all() if row[0] == 1 else (group < 0).all())
        rows = logits.log_softmax(1).gather(1, said).reshape(-1, 1)
        loss, _ = loss_of(old_log_prob=rows.detach(), log_prob=rows, advantages=batch,
                          response_mask=mask, loss_agg_mode="token-mean", config=actor)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = float(rewards.mean())
    return accuracy, pushed, constant


def main():
    listed = subprocess.run(["buttress", "advantages", "--estimator", "list"], check=True,
                            capture_output=True, text=True).stdout
    names = {"buttress_" + line.split()[0] for line in listed.splitlines() if line.strip()}
    missing = names - set(core_algos.ADV_ESTIMATOR_REGISTRY)
    require(not missing, f"verl does not know {missing}")
    score = load_extern_object(module_path="pkg://buttress.verl", object_name="compute_score")
    require((score("", "\\boxed{\\frac12}", "0.5"), score("", "\\boxed{2}", "0.5")) == (1, 0),
            "the reward function is not the verifier")
    apart = compare_with_verl(torch.Generator().manual_seed(1))
    require(apart < 1e-5, f"advantages are {apart} from verl's")
    grpo, none, _ = train("buttress_grpo", score)
    avspo, pushed, constant = train("buttress_avspo", score, avspo={"mode": "opposite"})
    require(none == 0 and pushed > 0, f"AVSPO pushed {pushed} constant groups, grpo {none}")
    require(min(grpo, avspo) > 0.6, f"accuracies of {grpo} and {avspo} after {STEPS} steps")
    print(f"wheel: verl: advantages within {apart:.1e} of verl's, accuracy {grpo:.2f} by grpo and "
          f"{avspo:.2f} by AVSPO, which gave {pushed} of {constant} constant groups an advantage")


if __name__ == "__main__":
    main()
