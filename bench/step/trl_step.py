"""Runs TRL's GRPOTrainer on the prompts of a JSONL file, for bench/step/run.py. Prints the seconds
of each step and then its peak RSS in MiB.
  trl_step.py MODEL PROMPTS.jsonl COMPLETIONS TOKENS STEPS DTYPE"""

import json
import os
import random
import resource
import sys
import time

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

model, prompts = sys.argv[1], [json.loads(line)["prompt"] for line in open(sys.argv[2])]
completions, tokens, steps = (int(argument) for argument in sys.argv[3:6])
dtype = sys.argv[6]
torch.set_num_threads(os.cpu_count())


def reward(completions, **_):
    return [float(random.random() < 0.5) for _ in completions]


class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__):
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        print(time.perf_counter() - self.begin, flush=True)


config = GRPOConfig(output_dir="/tmp/trl",
                    per_device_train_batch_size=completions,
                    num_generations=8,
                    max_completion_length=tokens,
                    max_steps=steps,
                    logging_steps=1,
                    report_to=[],
                    save_strategy="no",
                    use_cpu=True,
                    bf16=dtype == "bfloat16",
                    gradient_checkpointing=False,
                    beta=0.0,
                    loss_type="dapo",
                    learning_rate=1e-5,
                    disable_tqdm=True,
                    model_init_kwargs={"dtype": dtype},
                    generation_kwargs={"min_new_tokens": tokens},
                   )
trainer = GRPOTrainer(model=model,
                      reward_funcs=reward,
                      args=config,
                      train_dataset=Dataset.from_dict({"prompt": prompts}),
                      processing_class=AutoTokenizer.from_pretrained(model),
                      callbacks=[Clock()],
                     )
trainer.log = lambda *_, **__: None
trainer.train()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
