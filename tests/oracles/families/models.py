"""Small random models of every family that Buttress supports, and their numbers by transformers.

Weights have a spread large enough that logits differ visibly, windows are shorter than the
sequences, and caps, scaled frequencies and biases change the numbers.
"""

import torch
import transformers

TEMPERATURE = 0.7


def shape(hidden=32, heads=4, kv_heads=2, head_dim=16, layers=2, vocab=64, **more):
    return {
        "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": 48,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 256,
        "bos_token_id": None, "eos_token_id": vocab - 1, "pad_token_id": None, **more
    }


LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32
}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 100000.0, "factor": 4.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}
}
GEMMA2 = {
    "sliding_window": 8, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 4.0
}
GEMMA3 = {"sliding_window": 8, "query_pre_attn_scalar": 24, "rope_parameters": GEMMA3_ROPE}

EXPERTS = {
    "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True
}

# One of each family is a golden folder; tests/oracles/families compares all of them.
GOLDEN = {
    "qwen3": ("Qwen3", shape(tie_word_embeddings=True)),
    "qwen3_moe": ("Qwen3Moe", shape(layers=3, mlp_only_layers=[1], **EXPERTS)),
    "llama": ("Llama", shape(hidden=48, head_dim=12, rope_parameters=LLAMA3)),
    "mistral": ("Mistral", shape(kv_heads=1, sliding_window=8)),
    "gemma2": ("Gemma2", shape(**GEMMA2)),
    "gemma3": ("Gemma3Text", shape(layer_types=["sliding_attention", "full_attention"], **GEMMA3)),
}
VARIANTS = {
    **GOLDEN,
    "qwen2": ("Qwen2", shape(head_dim=8, tie_word_embeddings=True)),
    "qwen2_window": ("Qwen2", shape(heads=8, use_sliding_window=True, sliding_window=8,
                                    max_window_layers=1)),
    "qwen3_biased": ("Qwen3", shape(heads=6, kv_heads=3, hidden=40, attention_bias=True)),
    "qwen3_moe_sparse": ("Qwen3Moe", shape(layers=4, decoder_sparse_step=2, attention_bias=True,
                                           tie_word_embeddings=True,
                                           **{**EXPERTS, "norm_topk_prob": False})),
    "qwen3_moe_many": ("Qwen3Moe", shape(hidden=64, num_experts=128, num_experts_per_tok=8,
                                         moe_intermediate_size=24, norm_topk_prob=True)),
    "llama_tied": ("Llama", shape(heads=4, kv_heads=4, head_dim=8, attention_bias=True,
                                  tie_word_embeddings=True)),
    "mistral_full": ("Mistral", shape(sliding_window=None, tie_word_embeddings=True)),
    "gemma2_untied": ("Gemma2", shape(head_dim=256, tie_word_embeddings=False, **GEMMA2)),
    "gemma3_pattern": ("Gemma3Text", shape(layers=4, sliding_window=8, sliding_window_pattern=3,
                                           tie_word_embeddings=False)),
    "llama_152k": ("Llama", shape(vocab=151936, rope_parameters=LLAMA3)),
}


def make(name, seed=7):
    """Returns a random model in float32 whose weights bfloat16 holds exactly."""
    family, fields = VARIANTS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, family + "Config")(**fields)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, family.removesuffix("Text") + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter, p in model.named_parameters():
            if parameter.endswith("norm.weight"):
                p.normal_(0.0 if family.startswith("Gemma") else 1.0, 0.2)
            else:
                p.normal_(0.0, 0.3 if parameter.endswith("bias") else 0.15)
            p.copy_(p.bfloat16())
    return model


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager",
                                                             experts_implementation="eager")


def sequences(vocab):
    return [[5], [1, 2, 3], list(range(10, 27)), [(7 * i * i + 3) % vocab for i in range(40)],
            [(11 * i + 1) % vocab for i in range(33)], [(5 * i * i + i) % vocab for i in range(70)]]


def logprobs_of(logits, tokens):
    """Log-probs of each token after the first, [N - 1]."""
    logp = torch.log_softmax(logits[:-1].float() / TEMPERATURE, -1)
    return logp.gather(1, torch.tensor(tokens[1:], dtype=torch.long)[:, None])[:, 0]


def forward(model, batch):
    """Logits of each sequence; the summed log-probs leave their gradients in the parameters."""
    model.zero_grad()
    logits = [model(torch.tensor([tokens])).logits[0] for tokens in batch]
    sum(logprobs_of(rows, tokens).sum() for rows, tokens in zip(logits, batch)).backward()
    return [rows.detach() for rows in logits]


def gradients(model):
    """Pairs of a name in the checkpoint, where every expert has tensors of its own, and the
    gradient of that tensor."""
    for name, p in model.named_parameters():
        prefix, tensor = name.rsplit(".", 1)
        if not prefix.endswith("experts"):
            yield name, p.grad
            continue
        parts = ("gate_proj", "up_proj") if tensor == "gate_up_proj" else ("down_proj",)
        for expert, gradient in enumerate(p.grad):
            for part, rows in zip(parts, gradient.chunk(len(parts))):
                yield f"{prefix}.{expert}.{part}.weight", rows


def greedy(model, prompt, count):
    """The greedy tokens with transformers' cache, and the smallest lead of the first over the
    second logit."""
    out = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False,
                         eos_token_id=None, pad_token_id=0, output_logits=True,
                         return_dict_in_generate=True)
    lead = min((top[0] - top[1]).item() for top in (row[0].topk(2).values for row in out.logits))
    return out.sequences[0, len(prompt):].tolist(), lead
