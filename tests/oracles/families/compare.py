"""Compares Buttress' models of every family with transformers'.

compare.py FAMILY_ORACLE [MODEL...]

For each model of models.py, in float32: whole logits, log-probs (of the learner, and of the engine
with the cache) and gradients, and greedy tokens; then the log-probs that transformers computes from
the folder that Buttress saved, which must be equal. In bfloat16: the distance of the log-probs to
those in float32, next to that of transformers' own bfloat16. Prints a table, and fails if a number
is out of bounds.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import models
import safetensors.torch
import torch
import transformers

BOUND = 1e-5  # of the largest value of a tensor
BF16_BOUND = 1.1  # of transformers' distance
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [(7 * i * i + 3) % 64 for i in range(20)]]
NEW_TOKENS = 24


def relative(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def ours(program, folder, out, dtype, batch):
    request = {
        "temperature": models.TEMPERATURE, "sequences": batch, "prompts": PROMPTS,
        "new_tokens": NEW_TOKENS, "dtype": dtype
    }
    out.mkdir()
    (out / "request.json").write_text(json.dumps(request))
    subprocess.run([program, folder, out / "request.json", out], check=True)
    return safetensors.torch.load_file(out / "results.safetensors")


def logprobs(model, batch):
    with torch.no_grad():
        return torch.cat([
            models.logprobs_of(model(torch.tensor([tokens])).logits[0], tokens) for tokens in batch
        ])


def until_end(tokens, end):
    return tokens[:tokens.index(end) + 1] if end in tokens else tokens


def compare(program, name, scratch):
    model = models.make(name)
    vocab = model.config.vocab_size
    batch = models.sequences(vocab)[1:]
    model.save_pretrained(scratch / "theirs")
    logits = models.forward(model, batch)
    found = ours(program, scratch / "theirs", scratch / "float32", "float32", batch)
    row = {
        "logits": max(relative(found[f"logits.{i}"], x) for i, x in enumerate(logits)),
        "gradients": max(relative(found[f"gradient.{key}"], gradient)
                         for key, gradient in models.gradients(model)),
    }
    expected = torch.cat([models.logprobs_of(x, t) for x, t in zip(logits, batch)])
    row["logprobs"] = relative(found["logprobs"], expected)
    row["logprobs"] = max(row["logprobs"], relative(found["engine_logprobs"], expected))
    row["greedy"] = all(
        found[f"greedy.{i}"].int().tolist() == until_end(
            models.greedy(model, prompt, NEW_TOKENS)[0], vocab - 1)
        for i, prompt in enumerate(PROMPTS))
    saved = models.load(scratch / "float32" / "model")
    row["saved"] = torch.equal(logprobs(saved, batch), logprobs(model, batch))
    half = ours(program, scratch / "theirs", scratch / "bfloat16", "bfloat16", batch)
    distance = (logprobs(model.bfloat16(), batch) - expected).norm()
    row["bf16"] = ((half["logprobs"] - expected).norm() / distance).item()
    row["engine"] = ((half["engine_logprobs"] - expected).norm() / distance).item()
    return row


def within(row):
    return (max(row["logits"], row["logprobs"], row["gradients"]) <= BOUND and row["greedy"] and
            row["saved"] and max(row["bf16"], row["engine"]) <= BF16_BOUND)


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    bad = []
    print(f"{'model':<16} {'logits':>8} {'logprobs':>8} {'gradients':>9} {'greedy':>6} "
          f"{'saved':>5} {'bf16 / theirs':>13} {'engine':>6}")
    for name in sys.argv[2:] or models.VARIANTS:
        with tempfile.TemporaryDirectory() as scratch:
            row = compare(sys.argv[1], name, pathlib.Path(scratch))
        greedy, saved = ("equal" if row[key] else "DIFFER" for key in ("greedy", "saved"))
        print(f"{name:<16} {row['logits']:8.1e} {row['logprobs']:8.1e} {row['gradients']:9.1e} "
              f"{greedy:>6} {saved:>5} {row['bf16']:13.2f} {row['engine']:6.2f}", flush=True)
        if not within(row):
            bad.append(name)
    if bad:
        sys.exit(f"out of bounds ({BOUND} of the largest value, {BF16_BOUND} in bf16): {bad}")


if __name__ == "__main__":
    main()
