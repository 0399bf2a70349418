"""Writes updates.json: what TRL 1.16.0 and verl 0.9.1 make of a step with several updates.

TRL's GRPOTrainer trains tests/golden/policy/qwen2_tiny on a recorded batch with
steps_per_generation and num_iterations; only its generation and the order of its shuffle are
replaced. For verl, its policy loss and aggregation, and torch's AdamW, in the loop of its actor:
mini-batches of prompts, ppo_epochs times. With PEERS, the folder that tests/oracles/peers.sh
prints:
  PEERS/bin/python make_updates.py PEERS/verl updates.json
"""
import json
import pathlib
import random
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "oracles" / "losses"))
import verl_module  # noqa: E402

MODEL = str(HERE / "policy" / "qwen2_tiny")
GROUPS, G, LR, EPS, CLIP, MAX_TOKENS = 4, 4, 1e-3, 1e-4, 0.1, 10
# The mini-batch of each completion as lib/rl/placement.h draws it for run.seed 1 and step 1.
COMPLETIONS_IN_4 = [1, 0, 2, 1, 3, 1, 0, 3, 2, 2, 3, 3, 1, 0, 2, 0]
PROMPTS_IN_2 = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]


def draw_batch():
    rng = random.Random(5)
    groups = []
    for _ in range(GROUPS):
        completions = [[rng.randrange(1, 120) for _ in range(rng.randrange(2, MAX_TOKENS))]
                       for _ in range(G)]
        rewards = [1, 0] + [rng.randrange(2) for _ in range(G - 2)]
        groups.append({
            "prompt": [rng.randrange(1, 120) for _ in range(rng.randrange(2, 8))],
            "completions": completions, "rewards": rewards
        })
    return groups


def changes(model, before):
    """Of each parameter: the norm of its change, and the change of its first values."""
    return {
        name: [(p.detach() - before[name]).norm().item(),
               (p.detach() - before[name]).flatten()[:4].tolist()]
        for name, p in model.named_parameters()
    }


def copies(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


class RecordedTrainer(GRPOTrainer):
    """Trains the recorded batch, and keeps the loss and the clip fractions of each update."""

    def _generate(self, prompts):
        rows = [(group["prompt"], completion) for group in BATCH
                for completion in group["completions"]]
        assert len(prompts) == len(rows)
        prompt_ids, completion_ids = ([list(ids) for ids in side] for side in zip(*rows))
        return (prompt_ids, completion_ids, None, ["" for _ in rows], None, {}, None, None)

    def compute_loss(self, model, inputs, *arguments, **named):
        loss = super().compute_loss(model, inputs, *arguments, **named)
        metrics = self._metrics["train"]
        self.updates.append([loss.item(), metrics["clip_ratio/low_mean"][-1],
                             metrics["clip_ratio/high_mean"][-1]])
        return loss


def in_order_of_mini_batches(generation_batch):
    order = sorted(range(GROUPS * G), key=lambda row: COMPLETIONS_IN_4[row])
    return {
        key: value[order] if isinstance(value, torch.Tensor) and value.dim() > 0 else
        [value[row] for row in order] if isinstance(value, list) else value
        for key, value in generation_batch.items()
    }


def trl(loss_type, iterations):
    vocabulary = {str(token): token for token in range(128)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="0")), pad_token="0",
        eos_token="127")
    prompts = [" ".join(map(str, group["prompt"])) for group in BATCH]
    rewards = [float(reward) for group in BATCH for reward in group["rewards"]]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=G, num_generations=G,
            steps_per_generation=GROUPS, num_iterations=iterations, max_steps=GROUPS * iterations,
            max_completion_length=MAX_TOKENS, loss_type=loss_type, epsilon=CLIP, beta=0.0,
            learning_rate=LR, lr_scheduler_type="constant", weight_decay=0.0, adam_beta2=0.99,
            max_grad_norm=1.0, shuffle_dataset=False, gradient_checkpointing=False, bf16=False,
            use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, disable_dropout=True, model_init_kwargs={"dtype": "float32"})
        trainer = RecordedTrainer(model=MODEL, reward_funcs=lambda completions, **_: rewards,
                                  args=config, train_dataset=Dataset.from_dict({"prompt": prompts}),
                                  processing_class=tokenizer)
        trainer.updates = []
        before = copies(trainer.model)
        trainer.train()
    return {"peer": "trl", "loss_type": loss_type, "epochs": iterations, "updates": trainer.updates,
            "changes": changes(trainer.model, before)}


def logprobs_of(model, row):
    tokens = row["prompt"] + row["completion"]
    logits = model(torch.tensor([tokens])).logits[0, len(row["prompt"]) - 1:-1].float()
    targets = torch.tensor(row["completion"])
    return torch.log_softmax(logits, -1).gather(1, targets[:, None])[:, 0]


def pad_rows(values):
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)


def verl(core, mode, epochs):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    before = copies(model)
    rows = []
    for group in BATCH:
        rewards = torch.tensor(group["rewards"], dtype=torch.float32)
        for completion, reward in zip(group["completions"], rewards):
            rows.append({"prompt": group["prompt"], "completion": completion,
                         "advantage": (reward - rewards.mean()) / (rewards.std() + EPS)})
    with torch.no_grad():
        for row in rows:
            row["old"] = logprobs_of(model, row)
    config = verl_module.ActorConfig(clip_ratio=CLIP, clip_ratio_low=CLIP, clip_ratio_high=CLIP,
                                     clip_ratio_c=1e9, loss_agg_mode=mode, global_batch_info={})
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.99), weight_decay=0.0)
    updates = []
    for _ in range(epochs):
        for mini_batch in range(2):
            own = [row for row, drawn in zip(rows, PROMPTS_IN_2) if drawn == mini_batch]
            mask = pad_rows([torch.ones(len(row["completion"])) for row in own])
            config.global_batch_info = {"dp_size": 1, "batch_num_tokens": mask.sum(),
                                        "global_batch_size": len(own)}
            optimizer.zero_grad()
            loss, metrics = core.compute_policy_loss_vanilla(
                pad_rows([row["old"] for row in own]),
                pad_rows([logprobs_of(model, row) for row in own]),
                pad_rows([row["advantage"].expand(len(row["completion"])) for row in own]), mask,
                mode, config)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            updates.append([loss.item(), metrics["actor/pg_clipfrac"]])
    return {"peer": "verl", "loss_type": mode, "epochs": epochs, "updates": updates,
            "changes": changes(model, before)}


BATCH = draw_batch()
torch.set_num_threads(1)
grpo_trainer.shuffle_sequence_dict = in_order_of_mini_batches
core_algos, _ = verl_module.load(sys.argv[1])
runs = [trl("grpo", 1), trl("grpo", 3), trl("dr_grpo", 2), verl(core_algos, "token-mean", 1),
        verl(core_algos, "token-mean", 3), verl(core_algos, "seq-mean-token-mean", 2)]
golden = {"lr": LR, "eps": EPS, "clip": CLIP, "max_tokens": MAX_TOKENS,
          "completions_in_4": COMPLETIONS_IN_4, "prompts_in_2": PROMPTS_IN_2, "groups": BATCH,
          "runs": runs}
pathlib.Path(sys.argv[2]).write_text(json.dumps(golden) + "\n")
