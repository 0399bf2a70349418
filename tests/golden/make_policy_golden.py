"""Golden logits, log-probs and gradients of a tiny random Qwen2, computed by transformers (5.23,
torch 2.11, float32, one thread).

make_policy_golden.py OUT: writes OUT/qwen2_tiny (tied head, transformers 5 config),
OUT/qwen2_untied (untied head, grouped heads of a size that is not hidden/heads) and
OUT/policy_logits.json. Weights are random with a spread large enough that logits differ visibly.
"""

import json
import pathlib
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

SEQUENCES = [[5], [1, 2, 3],
             list(range(10, 27)), [(7 * i * i + 3) % 128 for i in range(40)],
             [(11 * i + 1) % 128 for i in range(33)], [(5 * i * i + i) % 128 for i in range(90)],]
TEMPERATURE = 0.7


def make(folder, **shape):
    torch.manual_seed(7)
    config = Qwen2Config(vocab_size=128,
                         intermediate_size=64,
                         num_attention_heads=4,
                         num_key_value_heads=2,
                         max_position_embeddings=256,
                         eos_token_id=127,
                         **shape)
    model = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.normal_(1.0, 0.2)
            elif name.endswith("bias"):
                p.normal_(0.0, 0.3)
            else:
                p.normal_(0.0, 0.15)
    model.save_pretrained(folder)
    rows = []
    for tokens in SEQUENCES:
        logits = model(torch.tensor([tokens])).logits[0]
        if len(tokens) > 1:  # gradients of the summed log-probs, over all sequences
            torch.log_softmax(logits[:-1] / TEMPERATURE,
                              -1).gather(1,
                                         torch.tensor(tokens[1:])[:, None]).sum().backward()
        logits = logits.detach()
        logp = torch.log_softmax(logits.double() / TEMPERATURE, -1)
        entropy = -(logp.exp() * logp).sum(-1)
        picked = logp[:-1].gather(1, torch.tensor(tokens[1:], dtype=torch.long)[:, None])[:, 0]
        rows.append({
            "tokens": tokens, "last_logits": [round(x, 6) for x in logits[-1].tolist()],
            "logprobs": [round(x, 7) for x in picked.tolist()],
            "entropy": [round(x, 7) for x in entropy.tolist()],
        })
    gradients = {
        name: {"norm": p.grad.norm().item(), "first": p.grad.flatten()[:4].tolist()}
        for name, p in model.named_parameters()
    }
    return {"sequences": rows, "gradients": gradients}


torch.set_num_threads(1)
out = pathlib.Path(sys.argv[1])
golden = {
    "temperature": TEMPERATURE, "qwen2_tiny": make(out / "qwen2_tiny",
                                                   hidden_size=64,
                                                   num_hidden_layers=2,
                                                   tie_word_embeddings=True,
                                                   rope_theta=1e6,
                                                  ), "qwen2_untied": make(out / "qwen2_untied",
                                                                          hidden_size=48,
                                                                          num_hidden_layers=1,
                                                                          head_dim=16,
                                                                          tie_word_embeddings=False,
                                                                         ),
}
(out / "policy_logits.json").write_text(json.dumps(golden) + "\n")
