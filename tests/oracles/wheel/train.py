"""Trains a tiny model by TRL's GRPOTrainer with the Python package of Buttress.

The reward function is buttress.verify, and buttress.advantages replaces TRL's own. With the
estimator that is TRL's the weights must become the same; with AVSPO, groups whose rewards are equal
get an advantage while the gate is open, and the policy becomes another.
"""

import contextlib
import io
import logging
import pathlib
import sys
import tempfile

import buttress
import datasets
import torch
import transformers
import trl

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "dumps"))
import trl_run  # noqa: E402

CHARACTERS = "0123456789"
GROUP, STEPS = 8, 6
# The answers of one character that count as right; the verifier takes each in turn.
PROMPTS = {"7": "01234", "8": "0123456789", "4": "", "5": "01"}


def verdict(completions, prompts, **_):
    """1 if the last character of the completion is a right answer, by the verifier."""
    rewards = []
    for text, prompt in zip(completions, prompts):
        outcomes = [buttress.verify(f"\\boxed{{{text[-1:]}}}", gold).outcome
                    for gold in PROMPTS[prompt]]
        rewards.append(float("correct" in outcomes))
    return rewards


class Trainer(trl.GRPOTrainer):
    """TRL's trainer with the advantages of Buttress; `estimator` and `settings` are set after
    construction, and nothing is replaced where the estimator is ""."""

    estimator, settings = "", {}

    def _calculate_rewards(self, *arguments):
        self.rewards = super()._calculate_rewards(*arguments)
        return self.rewards

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        rewards = self.rewards.sum(dim=1).view(-1, self.num_generations)
        self.seen.append((rewards, batch["advantages"].view_as(rewards)))
        if self.estimator:
            ours = buttress.advantages(rewards, self.estimator, **self.settings)
            batch["advantages"] = torch.tensor(ours, dtype=torch.float32).view(-1)
            self.seen[-1] += (torch.tensor(ours),)
        return batch


def train(folder, estimator, settings):
    """The weights, and for each step rewards, TRL's advantages and ours."""
    tokenizer = trl_run.make_tokenizer(CHARACTERS)
    config = trl.GRPOConfig(
        output_dir=str(folder), num_generations=GROUP, max_completion_length=3, max_steps=STEPS,
        per_device_train_batch_size=len(PROMPTS) * GROUP, learning_rate=1e-2, seed=5,
        lr_scheduler_type="constant", report_to="none", use_cpu=True, save_strategy="no",
        disable_tqdm=True)
    trainer = Trainer(trl_run.make_model(tokenizer), verdict, args=config,
                      train_dataset=datasets.Dataset.from_list([{"prompt": p} for p in PROMPTS]),
                      processing_class=tokenizer)
    trainer.estimator, trainer.settings, trainer.seen = estimator, settings, []
    trainer.train()
    weights = torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()])
    return weights, trainer.seen


def require(holds, what):
    if not holds:
        raise SystemExit(f"wheel: {what}")


def main():
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        own, _ = train(folder, "", {})
        same, seen = train(folder, "grpo", {"eps": 1e-4})
        other, avspo = train(folder, "avspo", {"avspo": {"mode": "opposite"}, "eps": 1e-4})
    apart = max(float((theirs - ours).abs().max()) for _, theirs, ours in seen)
    require(apart < 1e-5, f"advantages are {apart} from TRL's")
    moved = float((own - same).abs().max())
    require(moved < 1e-5, f"weights are {moved} from those of TRL's own advantages")
    rates = [buttress.acr(rewards).acr for rewards, _, _ in avspo]
    pushed = constant = 0
    for rate, (step, _, all_ours) in zip(rates, avspo):
        for rewards, ours in zip(step, all_ours):
            if rewards.min() == rewards.max():
                constant += 1
                right = bool((ours > 0).all() if rewards[0] == 1 else (ours < 0).all())
                pushed += right
                require(right == (rate > 0.3), f"at an ACR of {rate} a group of {rewards[0]} has "
                        f"the advantages {ours}")
    require(pushed > 0, f"no gate opened at rates of {rates}")
    require(float((own - other).abs().max()) > 1e-3, "AVSPO left the weights as they were")
    print(f"wheel: TRL {trl.__version__}, transformers {transformers.__version__}: advantages of "
          f"grpo within {apart:.1e} of TRL's, weights after {STEPS} steps within {moved:.1e}")
    print(f"wheel: AVSPO gave {pushed} of {constant} constant groups an advantage in their "
          f"direction at an ACR of up to {max(rates):.2f}")


if __name__ == "__main__":
    main()
