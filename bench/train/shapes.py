"""The models of the training bench: folders that hold a config.json and nothing else."""
import json

SILU = {"hidden_act": "silu", "initializer_range": 0.02, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 40960, "tie_word_embeddings": True}
QWEN2 = {**SILU, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
         "rope_theta": 1000000}
QWEN3 = {**SILU, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
         "attention_bias": False, "rope_theta": 1000000}


def shape(vocabulary, width, layers, heads, kv_heads, head, mlp, **more):
    return dict(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head,
                intermediate_size=mlp, **more)


CONFIGS = {
    "tiny": {**QWEN3, **shape(1024, 128, 2, 4, 2, 32, 256)},
    "quickstart": {**QWEN2, **shape(2048, 96, 3, 3, 3, 32, 256)},
    "wide": {**QWEN2, **shape(8192, 512, 8, 8, 8, 64, 2048)},
    "gemma": {
        **SILU, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 32, "sliding_window": 256, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "attention_bias": False, "attention_dropout": 0.0,
        "rope_theta": 10000.0, **shape(2048, 128, 2, 4, 2, 32, 256)
    },
    "experts": {
        **QWEN3, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
        **shape(2048, 128, 2, 4, 2, 32, 256)
    },
    "half": {**QWEN2, **shape(151936, 896, 24, 14, 2, 64, 4864)},
    "qwen3-0.6b": {**QWEN3, **shape(151936, 1024, 28, 16, 8, 128, 3072)},
    "qwen2.5-1.5b": {**QWEN2, **shape(151936, 1536, 28, 12, 2, 128, 8960)},
    "qwen2.5-7b": {**QWEN2, **shape(152064, 3584, 28, 28, 4, 128, 18944,
                                    tie_word_embeddings=False)},
    "qwen2.5-14b": {**QWEN2, **shape(152064, 5120, 48, 40, 8, 128, 13824,
                                     tie_word_embeddings=False)},
    "qwen2.5-32b": {**QWEN2, **shape(152064, 5120, 64, 40, 8, 128, 27648,
                                     tie_word_embeddings=False)},
    "qwen2.5-72b": {**QWEN2, **shape(152064, 8192, 80, 64, 8, 128, 29568,
                                     tie_word_embeddings=False)},
}

# Options of bench_train: the groups of a step and the tokens of a micro-batch.
LOADS = {
    "tiny": dict(groups=4, group_size=4, least_prompt=4, most_prompt=16, least=4, most=64,
                 micro_batch_tokens=512),
    "half": dict(groups=2, group_size=16, least_prompt=32, most_prompt=64, least=16, most=128,
                 micro_batch_tokens=2048),
    "qwen3-0.6b": dict(groups=4, group_size=16, least_prompt=128, most_prompt=512, least=100,
                       most=4096, micro_batch_tokens=16384),
    "qwen2.5-1.5b": dict(groups=4, group_size=16, least_prompt=128, most_prompt=512, least=100,
                         most=4096, micro_batch_tokens=16384),
}


def load_flags(case):
    """The options of bench_train for the load of a case."""
    return [word for name, value in LOADS[case].items()
            for word in ("--" + name.replace("_", "-"), str(value))]


def write_model(folder, case):
    """Writes the model of a case into `folder`, a pathlib.Path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[case], indent=2))
