"""Writes tests/golden/bpe_training.json: the merges that Hugging Face's `tokenizers` learns from a
few rows.

Run with an environment that has tokenizers 0.23: python tests/golden/make_bpe_training.py
Every merge and token comes from that library's BpeTrainer; nothing is computed here.
"""

import json
import pathlib

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
                 r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ROWS = [{
    "question":
        ("Natalia sold clips to 48 of her friends in April, and then she sold half as many clips"
         " in May. How many?"),
    "answer": ("Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nShe sold 48+24 = 72 clips"
               " altogether.\n#### 72"),
}, {
    "question":
        ("Weng earns $12 an hour. She's worked 50 minutes; they've said they'll pay. How much"
         " did she earn?"),
    "answer": ("Weng earns 12/60 = $0.2 a minute.\nWorking 50 minutes, she earned 0.2 x 50 ="
               " $10.\n#### 10"),
}, {
    "question": "aaaa aaaa aaa banana bananas anan",
    "answer": ["你好，世界！你好，你好", "naïve café\n\n\n  two  spaces\t\ttabs"],
},]
TOKENS = 420

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
])
texts = []
for row in ROWS:
    texts.append(row["question"])
    texts.extend(row["answer"] if isinstance(row["answer"], list) else [row["answer"]])
tokenizer.train_from_iterator(
    texts,
    trainers.BpeTrainer(vocab_size=TOKENS,
                        show_progress=False,
                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
)
model = json.loads(tokenizer.to_str())["model"]
vocab = [token for token, _ in sorted(model["vocab"].items(), key=lambda entry: entry[1])]
path = pathlib.Path(__file__).parent / "bpe_training.json"
path.write_text(
    json.dumps({"rows": ROWS, "tokens": TOKENS, "vocab": vocab, "merges": model["merges"]},
               ensure_ascii=False,
              ) + "\n")
