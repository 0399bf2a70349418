"""Training steps of transformers on a model with random weights and the groups of a run of
bench_train: float32 parameters and AdamW, bfloat16 arithmetic (autocast), SDPA attention. Each
completion is behind a copy of its prompt, sequences of similar length are padded to a micro-batch,
and log-probs and entropy are of the completion's tokens. Prints one JSON object.

transformers_step.py MODEL DEVICE THREADS MICRO_BATCH_TOKENS < the JSON object of bench_train
"""
import json
import resource
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def micro_batches(groups, most):
    """Yields [(prompt, completion), ...], tokens of sequences of which the padded sum is at most
    `most`; a longer one goes alone."""
    rows = sorted(((prompt, one) for prompt, completions in groups for one in completions),
                  key=sum)
    batch = []
    for row in rows:
        if batch and (len(batch) + 1) * sum(row) > most:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def scores(logits, targets):
    """The log-probs of targets, and the entropies without a gradient."""
    logprobs = torch.log_softmax(logits.float(), -1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(-1, targets[..., None])[..., 0], entropy


def main():
    folder, device, threads, most = sys.argv[1:]
    row = json.load(sys.stdin)
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                             attn_implementation="sdpa").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.99), weight_decay=0.0,
                                  fused=True)

    def settle():
        if device == "cuda":
            torch.cuda.synchronize()

    def backward(batch, count):
        width = max(map(sum, batch))
        tokens = torch.randint(0, config.vocab_size, (len(batch), width), device=device)
        attended = torch.zeros(len(batch), width, dtype=torch.long, device=device)
        scored = torch.zeros(len(batch), width, dtype=torch.bool, device=device)
        for i, (prompt, completion) in enumerate(batch):
            attended[i, :prompt + completion] = 1
            scored[i, prompt:prompt + completion] = True
        first = min(prompt for prompt, _ in batch)  # scored tokens are behind it
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(input_ids=tokens, attention_mask=attended, use_cache=False,
                           logits_to_keep=width - first + 1).logits
        logprobs, _ = scores(logits[:, :-1], tokens[:, first:])
        loss = -(logprobs * scored[:, first:]).sum() / count
        loss.backward()

    def step(groups):
        settle()
        begin = time.perf_counter()
        optimizer.zero_grad()
        count = sum(map(sum, (completions for _, completions in groups)))
        for batch in micro_batches(groups, int(most)):
            backward(batch, count)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        settle()
        return time.perf_counter() - begin

    step(row["lengths"][0])  # allocates
    seconds = sum(map(step, row["lengths"]))
    peak = (torch.cuda.max_memory_allocated() if device == "cuda" else
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(json.dumps({"seconds": seconds, "tokens_per_second": row["rows"] / seconds,
                      "peak_bytes": peak}))


main()
