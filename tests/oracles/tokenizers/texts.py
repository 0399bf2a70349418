"""Hostile texts: of every script and plane, with marks, controls, special tokens and cut words."""

import random

POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " \t\n\r", "     ",
    "'\u2019.,;:!?()[]{}<>|/\\\"#$%&*+-=_~`^@", "éèüßøñçśžığ", "你好世界数学天气", "кириллица", "مرحباعالم",
    "\u0301\u0308\u0323\u0300\u0327\u0345", "😀👍🏽👨👩\u200d\ufe0f\u2581\u2581",
    "\u00a0\u2003\u3000\u0085\u200b\ufeff\u2028\u180e", "한국어글", "<>|im_endstart", "²³¹¼½٣४Ⅷ①",
    "\u0000\u0001\u001f\u007f\u0080\u009f", "ǅ ﬁ Ａ ᾼ ʼ", [
        "'s", "'LL", "<|im_end|>", "<|im_start|>", " the", "\n\n", "12", "<s>", "</s>", "<unk>",
        "<0x41>", "<bos>", "<|begin_of_text|>", "<tool_call>", "<0xZZ>", "\u2581the",
    ],
]


def any_character(rng):
    """A code point of any plane that is not a surrogate."""
    while True:
        point = rng.choice([rng.randrange(0x300), rng.randrange(0x10000), rng.randrange(0x20000),
                            rng.randrange(0x110000)])
        if not 0xD800 <= point < 0xE000:
            return chr(point)


def hostile_texts(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        pieces = []
        for _ in range(rng.randint(0, 40)):
            if rng.random() < 0.1:
                pieces.append(any_character(rng))
            else:
                pieces.append(rng.choice(rng.choice(POOLS)))
        yield "".join(pieces)
