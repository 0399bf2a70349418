"""Golden numbers of a small random model of each family, by transformers 5.23 and torch 2.11, in
float32 on one thread.

With PEERS, the folder that tests/oracles/peers.sh prints:
  PEERS/bin/python make_families_golden.py OUT
writes OUT/NAME for each model (Llama in two shards, Mistral in float16, the others in bfloat16)
and OUT/families.json: last logits, log-probs, entropies, evenly spaced values of each gradient
with its largest value and its norm, and greedy tokens.
"""

import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "oracles" / "families"))
import models  # noqa: E402

VALUES = 32  # of each gradient
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [(7 * i * i + 3) % 64 for i in range(20)]]


def digits(values, count=8):
    return [float(f"{x:.{count}g}") for x in values]


def summary(gradient):
    flat = gradient.flatten()
    spread = [flat[i * flat.numel() // VALUES].item() for i in range(VALUES)]
    return {
        "largest": flat.abs().max().item(), "norm": flat.norm().item(), "values": digits(spread)
    }


def save(model, name, folder):
    dtype = torch.float16 if name == "mistral" else torch.bfloat16
    state = {key: value.to(dtype) for key, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=state,
                          max_shard_size="30KB" if name == "llama" else "1GB")


def numbers(model, vocab):
    batch = models.sequences(vocab)
    rows = []
    for tokens, logits in zip(batch, models.forward(model, batch)):
        logp = torch.log_softmax(logits.double() / models.TEMPERATURE, -1)
        rows.append({
            "tokens": tokens, "last_logits": digits(logits[-1].tolist()),
            "logprobs": digits(models.logprobs_of(logits, tokens).tolist()),
            "entropy": digits((-(logp.exp() * logp).sum(-1)).tolist()),
        })
    completions = []
    for prompt in PROMPTS:
        tokens, lead = models.greedy(model, prompt, 24)
        assert lead > 1e-3, lead
        completions.append({"prompt": prompt, "tokens": tokens})
    gradients = {name: summary(gradient) for name, gradient in models.gradients(model)}
    return {"sequences": rows, "gradients": gradients, "greedy": completions}


def main():
    torch.set_num_threads(1)
    out = pathlib.Path(sys.argv[1])
    golden = {"temperature": models.TEMPERATURE}
    for name in models.GOLDEN:
        model = models.make(name)
        save(model, name, out / name)
        golden[name] = numbers(model, model.config.vocab_size)
    (out / "families.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
