"""Training steps of transformers on a model with random weights: float32 parameters and AdamW,
bfloat16 arithmetic (autocast), SDPA attention. Prints one JSON object, as bench_train does.

transformers_step.py MODEL DEVICE SEQUENCES LENGTH STEPS THREADS
"""
import json
import resource
import statistics
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def main():
    folder, device, *numbers = sys.argv[1:]
    sequences, length, steps, threads = map(int, numbers)
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                             attn_implementation="sdpa").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.99), weight_decay=0.0,
                                  fused=True)
    tokens = torch.randint(0, config.vocab_size, (sequences, length + 1), device=device)

    def settle():
        if device == "cuda":
            torch.cuda.synchronize()

    def step():
        settle()
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1),
                                                 tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        settle()
        return time.perf_counter() - begin, loss.item()

    _, first_loss = step()
    timed = [step() for _ in range(steps)]
    seconds = statistics.median(one for one, _ in timed)
    peak = (torch.cuda.max_memory_allocated() if device == "cuda" else
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(json.dumps({
        "tokens": sequences * length, "seconds": seconds,
        "tokens_per_second": sequences * length / seconds, "peak_bytes": peak,
        "first_loss": first_loss, "last_loss": timed[-1][1],
    }))


main()
