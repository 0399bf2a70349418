"""The models of the training bench: Qwen3 folders that hold a config.json and nothing else."""
import json

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False,
    "hidden_act": "silu", "initializer_range": 0.02, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True, "rope_theta": 1000000,
}
CONFIGS = {
    "tiny": dict(vocab_size=1024, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=32, intermediate_size=256,
                 max_position_embeddings=1024),
    "qwen3-0.6b": dict(vocab_size=151936, hidden_size=1024, num_hidden_layers=28,
                       num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                       intermediate_size=3072, max_position_embeddings=40960),
}
# Sequences and tokens of each: one micro-batch.
LOADS = {"tiny": (8, 64), "qwen3-0.6b": (16, 1024)}


def write_model(folder, case):
    """Writes the model of a case into `folder`, a pathlib.Path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**QWEN3, **CONFIGS[case]}, indent=2))
