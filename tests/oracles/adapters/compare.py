"""Compares the adapters of Buttress with peft's.

compare.py FOLDER_OF_PROGRAMS

For each case, in float32: the log-probs of an adapter of peft as Buttress reads it (of the learner,
and of the engine with the cache), the gradients of every A and B, the log-probs that peft computes
from the folder that Buttress wrote, and those of the weights that `rollout_worker merge` writes.
Prints a table, and fails if a number is out of bounds.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import models
import peft
import safetensors.torch
import torch
import transformers

LOGPROB_BOUND = 1e-4  # nats
BOUND = 1e-4  # of the largest value of a tensor
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
ALL = ATTENTION + ["gate_proj", "up_proj", "down_proj"]
CASES = {  # name: model, rank, alpha, targets, rsLoRA
    "qwen2, all": ("qwen2", 4, 8, ALL, False),
    "qwen2, q and v, rsLoRA": ("qwen2", 8, 16, ["q_proj", "v_proj"], True),
    "qwen3, all": ("qwen3", 16, 16, ALL, False),
    "qwen3, k, up and down": ("qwen3_biased", 3, 6, ["k_proj", "up_proj", "down_proj"], False),
    "llama, all, rsLoRA": ("llama", 1, 2, ALL, True),
    "gemma3, all": ("gemma3", 4, 8, ALL, False),
    "qwen3_moe, attention": ("qwen3_moe", 4, 8, ATTENTION, False),
}


def ours(programs, base, adapter, out, batch):
    out.mkdir()
    request = {
        "temperature": models.TEMPERATURE, "sequences": batch, "prompts": [], "new_tokens": 1,
        "dtype": "float32", "adapter": str(adapter)
    }
    (out / "request.json").write_text(json.dumps(request))
    subprocess.run([programs / "family_oracle", base, out / "request.json", out], check=True)
    return safetensors.torch.load_file(out / "results.safetensors")


def logprobs(model, batch):
    logits = models.forward(model, batch)
    return torch.cat([models.logprobs_of(rows, tokens) for rows, tokens in zip(logits, batch)])


def difference(found, expected):
    return (found - expected).abs().max().item()


def relative(found, expected):
    return difference(found, expected) / expected.abs().max().item()


def compare(programs, case, scratch):
    name, rank, alpha, targets, rslora = case
    base, adapter = scratch / "base", scratch / "adapter"
    model = models.make(name)
    batch = models.sequences(model.config.vocab_size)[1:]
    model.save_pretrained(base)
    plain = logprobs(model, batch).detach()
    torch.manual_seed(5)
    model = peft.get_peft_model(
        model,
        peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, use_rslora=rslora,
                        task_type="CAUSAL_LM", init_lora_weights=False))
    model.save_pretrained(adapter)
    expected = logprobs(model, batch)
    found = ours(programs, base, adapter, scratch / "out", batch)
    gradients = {
        key.replace(".default", ""): p.grad for key, p in model.named_parameters()
        if p.requires_grad
    }
    row = {
        "moved": difference(expected, plain),
        "logprobs": difference(found["logprobs"], expected),
        "engine": difference(found["engine_logprobs"], expected),
        "gradients": max(
            relative(found["gradient." + key], gradient) for key, gradient in gradients.items()),
        "frozen": sorted(gradients) == sorted(
            key.removeprefix("gradient.") for key in found if key.startswith("gradient.")),
    }
    again = peft.PeftModel.from_pretrained(
        models.load(base), scratch / "out" / "model", is_trainable=True)
    row["read by peft"] = difference(logprobs(again, batch), expected)
    merged = scratch / "merged"
    subprocess.run([
        programs / "rollout_worker", "merge", "--model", base, "--adapter", adapter, "--out", merged
    ], check=True)
    row["merged"] = difference(logprobs(models.load(merged), batch), expected)
    return row


def main():
    programs = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    columns = ["moved", "logprobs", "engine", "gradients", "read by peft", "merged"]
    print(f"{'case':<24}" + "".join(f" {column:>12}" for column in columns) + "  frozen")
    bad = []
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            row = compare(programs, case, pathlib.Path(scratch))
        print(f"{name:<24}" + "".join(f" {row[column]:12.1e}" for column in columns) +
              ("  yes" if row["frozen"] else "  NO"), flush=True)
        near = max(row["logprobs"], row["engine"], row["read by peft"], row["merged"])
        if (near > LOGPROB_BOUND or row["gradients"] > BOUND or row["moved"] < 0.01 or
                not row["frozen"]):
            bad.append(name)
    if bad:
        sys.exit(f"out of bounds ({LOGPROB_BOUND} nats, {BOUND} of the largest gradient): {bad}")


if __name__ == "__main__":
    main()
