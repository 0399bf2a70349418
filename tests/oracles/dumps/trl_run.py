"""Trains a tiny model by TRL's GRPOTrainer on the CPU, which writes what `buttress explain` reads.

Prompts differ in how likely a completion is right, from never to always; the second reward function
is shaping with a small weight, does not apply to some prompts, and logs columns that are no reward.
"""

import string

import datasets
import tokenizers
import transformers
import trl

CHARACTERS = string.ascii_lowercase + " ."
GROUP = 8
PROMPTS = {  # prompt: the letters of which one makes a completion right
    "never": "", "rarely": "q", "now and then": "etaoi", "often": "etaoinshrdlu",
    "always": string.ascii_lowercase + " .", "seldom": "zx", "half": "abcd", "mostly": "abcdefgh"
}


def make_tokenizer(characters=CHARACTERS):
    """A token for each character."""
    words = ["<pad>", "<end>", *characters]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<pad>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>",
                                                eos_token="<end>", padding_side="left")


def make_model(tokenizer):
    transformers.set_seed(3)
    return transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64,
                                 num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                                 max_position_embeddings=64, eos_token_id=tokenizer.eos_token_id,
                                 pad_token_id=tokenizer.pad_token_id, bos_token_id=None))


def correctness(completions, wanted, **_):
    return [float(any(c in letters for c in text)) for text, letters in zip(completions, wanted)]


def judged(completions, wanted, **_):
    """Has no verdict on texts that end in a vowel, and none on one prompt."""
    return [
        None if text[-1:] in "aeiou" or letters == "zx" else right
        for text, letters, right in zip(completions, wanted, correctness(completions, wanted))
    ]


def brevity(completions, wanted, log_extra, **_):
    """Shaping: none for prompts that are never right."""
    log_extra("first", [text[:1] for text in completions])
    log_extra("letters", [len(text) for text in completions])
    return [
        1 - len(text) / 16 if letters else None for text, letters in zip(completions, wanted)
    ]


def train(folder, functions, steps, prompts=None, characters=CHARACTERS, **settings):
    """Writes <folder>/completions and the state of the trainer. Prompts besides those of PROMPTS
    have no column `wanted`."""
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_tokenizer(characters)
    rows = datasets.Dataset.from_list([{"prompt": prompt} for prompt in prompts] if prompts else [
        {"prompt": prompt, "wanted": wanted} for prompt, wanted in PROMPTS.items()])
    config = trl.GRPOConfig(
        output_dir=str(folder), num_generations=GROUP, max_steps=steps,
        per_device_train_batch_size=4 * GROUP, learning_rate=1e-3, seed=5,
        log_completions=True, num_completions_to_print=0, report_to="none", use_cpu=True,
        save_strategy="steps", save_steps=steps, disable_tqdm=True,
        **{"max_completion_length": 12, "logging_steps": 1, **settings})
    trainer = trl.GRPOTrainer(make_model(tokenizer), functions, args=config, train_dataset=rows,
                              eval_dataset=rows if "eval_strategy" in settings else None,
                              processing_class=tokenizer)
    trainer.train()
    trainer.save_state()
