"""Writes tests/golden/tokenizer/families.json: a small tokenizer of each kind, and what Hugging
Face's `tokenizers` makes of texts with it; and punctuation.json: what it takes for punctuation.

Run with an environment that has tokenizers 0.23: python tests/golden/make_tokenizer_families.py
Every id, text and code point in the files comes from that library.
"""

import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracles/tokenizers"))
from tokenizers import pre_tokenizers  # noqa: E402

from families import families  # noqa: E402
from texts import hostile_texts  # noqa: E402

CORPUS = (HERE / "tokenizer/corpus.txt").read_text().strip().split("\n")
HANDWRITTEN = [
    "", " ", "  ", "\n", " a", "a ", "  a  b   ", "Hello world", " Hello world",
    "Hello, world!\n\n", "it's WE'RE", "12345 1.5e-10 3/4", "x²+y²=z² ½ Ⅷ ٣٤",
    "你好，世界！2024", "Привет",
    "👨‍👩‍👧‍👦 👍🏽", "é e\u0301",
    "\u2581", "\u2581a", " \u2581 a", "<s>", "<s>a", "<s> a", " <s> a", "a<s>b", "a <s>", "<s><s>",
    "<unk>\u4e01", "\u4e01\u4e02a\u4e03", "\u00a0a\u3000b\u200bc", "\t\ttabs",
    "\x00\x7f\x80", "<0x41>",
    "<|im_start|>user\nHi<|im_end|>\n", "<|begin_of_text|>hi<|eot_id|>", "<bos><start_of_turn>user",
    "...!?;:", "a_b__c", "$x^{2}$ \\frac{1}{2}", "(){}[]<>", "\U0001d54f\U00020000\U000e0041\uffff",
    "the the theThe THE", "\r\n\r\n x \r", "ab" * 20,
    "'s\U000315d5<bos> \U00011f50\u1c89b\U0001fadf!",
]


def punctuation():
    """The ranges of code points at which Punctuation splits a text."""
    split = pre_tokenizers.Punctuation().pre_tokenize_str
    ranges = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000 or len(split(f"a{chr(point)}a")) == 1:
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return ranges


def write(name, value):
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    (HERE / "tokenizer" / name).write_text(text + "\n", encoding="utf-8")


def main():
    rng = random.Random(3)
    texts = HANDWRITTEN + [t[:20] for t in hostile_texts(24, 17)]
    out = {"texts": texts, "vocabularies": [], "families": []}
    for name, tokenizer in families(CORPUS, 380):
        spec = json.loads(tokenizer.to_str())
        shared = {key: spec["model"].pop(key) for key in ("vocab", "merges")}
        if shared not in out["vocabularies"]:
            out["vocabularies"].append(shared)
        decodes = []
        size = tokenizer.get_vocab_size()
        for _ in range(15):
            ids = [rng.randrange(size) for _ in range(rng.randint(1, 8))]
            kept, skipped = (tokenizer.decode(ids, skip_special_tokens=skip)
                             for skip in (False, True))
            decodes.append([ids, kept, skipped])
        out["families"].append({
            "name": name, "vocabulary": out["vocabularies"].index(shared), "tokenizer": spec,
            "framed": tokenizer.encode("hi").ids,
            "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
            "decodes": decodes,
        })
    write("families.json", out)
    write("punctuation.json", punctuation())


main()
