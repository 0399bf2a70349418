"""Writes tests/golden/tokenizer: a small byte-level BPE tokenizer in Qwen2's manner, and what
Hugging Face's `tokenizers` makes of texts.

Run with an environment that has tokenizers 0.23: python tests/golden/make_tokenizer_golden.py
Every id and text in encodings.json comes from that library.
"""

import copy
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers,
                       )

FOLDER = pathlib.Path(__file__).parent / "tokenizer"
QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
                 r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CORPUS = (FOLDER / "corpus.txt").read_text().strip().split("\n")

HANDWRITTEN = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\r\n", "\r\n\r\n", "\t", "\t\t x", "a", " a",
    "  a", "   a  b   ", "a ", "a  ", "Hello world", " Hello world", "Hello  world", "HELLO wORLD",
    "it's", "IT'S", "It'S we'RE they'Ve I'M you'LL he'D don'T", "'s's's", "'ſ it'ſ", "''s", "' s",
    "l'été", "12345", "1 2 3", "12.5%", "$1,234.56", "3.14159e-10", "a1b2c3", "1a 2b", " 1", "  12",
    "١٢٣ ४५६ Ⅷ ½ ²", "x²+y²=z²", "你好，世界！", "今天天气很好 2024年", "日本語テスト", "カタカナ ﾊﾝｶｸ", "한국어 텍스트", "한",
    "한글", "Привет, мир!", "ПРИВЕТ", "مرحبا بالعالم", "हिन्दी पाठ", "ภาษาไทย", "שלום", "👋",
    "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷🇩🇪", "a👋b", " 👋 ", "☺️", "é", "e\u0301", "E\u0301cole",
    "a\u0323\u0307", "a\u0307\u0323", "ṩ", "s\u0323\u0307", "\u212b \u00c5 A\u030a", "ﬁ ﬀ",
    "Ω \u2126", "\u0344 \u0958 \u2adc", "\ufb1d", "\u1e9b\u0323", "q\u0301\u0323\u0300", "\u0301",
    " \u0301", "a\u200db", "a\u200cb", "\u200b", "\ufeffx", "a\u00a0b", "\u00a0", "a \u00a0 b",
    "a\u2003b", "\u2028x\u2029", "a\u0085b", "\u180e \u180ex", "\u3000あ", "\u202f1",
    "\u205f\u1680x", "\x00", "a\x00b", "\x01\x02\x1f\x7f", "\x0b\x0c", "\x1c\x1d",
    "tab\tsep\tvalues", "line1\nline2\r\nline3\rline4", "  \n  \n  x", "x  \n", "x\n\n\n y", "!!!",
    "!!!\n\n", " !!!\n x", "...", "--", "_", "__init__", "a_b", "#### 42", "####42", "\\boxed{42}",
    "$x^2$", "https://example.org/a?b=c&d=%20#e", "user@example.org", "foo(bar[0], {'a': 1});",
    "/* c */ // d", "if (a && b || !c) {\n\treturn;\n}", "<|im_start|>",
    "<|im_start|>user\nHi<|im_end|>\n", "<|im_end|><|im_end|>", " <|im_end|> ", "<|im_end|",
    "|im_end|>", "<|IM_END|>", "<<|im_end|>>", "<|endoftext|>x", "x<|endoftext|>",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<tool_call", "a<tool_call>b",
    ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhat is 12 +"
     " 30?<|im_end|>\n<|im_start|>assistant\n"), "e<|im_end|>\u0301", "\u0301<|im_end|>e\u0301",
    "<think>\n\n</think>\n\n", "\U0001d54f\U0001d7d9", "𠀀𪚥", "\U000e0041", "\ue000", "\uffff",
    "Z̵̛̺a̸l̴g̶o̷ ̸t̵e̶x̷t̸", "ÅÅ", "İi̇ıI", "ß SS", "ŉ", "a\u0301\u0301\u0301", "ｆｕｌｌ　ｗｉｄｔｈ １２３",
    "①②③ ㊙", "™©®", "«q» “q” ‘q’ it’s", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababab", "the the the", "tttttthethethe", " " * 50 + "x", "\n" * 30, "=" * 70,
    "hello<X>world", "hello <X> world", "<X><X>", "hello   <L>  world", "a <R>   b", " <L> <R> ",
    "word<W>word", "word <W> word", "<W>", "é<W>", "_<W>_", "<N>", "<Ne\u0301>", "<Né>", "a<Né>b",
    "<NN>", "<N", "(<W>)", "\u00a0<L>\u00a0", "<R>\u2003x", "x\u180e<L>", "Ⓐ<W>", "\u0301<W>",
    "<R> <L> x", "x  é.  y é.é. é é é é.", "<L><L>  <L>", " \t\n<L>\n\t <R>\r\n <X>",
]


def random_texts(count, seed):
    rng = random.Random(seed)
    pools = [
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " \t\n\r", "     ",
        "'’.,;:!?()[]{}<>|/\\\"#$%&*+-=_~`^@", "éèüßøñçśžığ", "你好世界数学天气", "кириллица", "مرحباعالم",
        "\u0301\u0308\u0323\u0300\u0327\u0345", "😀👍🏽👨👩\u200d\ufe0f",
        "\u00a0\u2003\u3000\u0085\u200b", "한국어글", "<>|im_endstart",
        ["'s", "'LL", "<|im_end|>", "<|im_start|>", " the", "\n\n", "12"],
    ]
    for _ in range(count):
        yield "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 40)))


def merge_patch(target, patch):
    """RFC 7396, as the test applies it."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge_patch(target.get(key), value)
    return target


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=600,
                                  min_frequency=1,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False,
                                 )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([
        AddedToken(t, normalized=False)
        for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")
    ])
    return json.loads(tokenizer.to_str())


def added(base, *extra):
    """The base's added tokens and further ones with flags."""
    tokens = copy.deepcopy(base["added_tokens"])
    for content, flags in extra:
        token = dict(content=content,
                     single_word=False,
                     lstrip=False,
                     rstrip=False,
                     normalized=False,
                     special=False,
                    )
        token.update(flags, id=tokens[-1]["id"] + 1)
        tokens.append(token)
    return tokens


def split_variant(pattern, behavior, invert=False):
    steps = [{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}, {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False
    },]
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}


def variants(base):
    byte_level = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
        "pretokenizers": None,
    }
    yield "gpt2", {
        "normalizer": None, "pre_tokenizer": byte_level,
        "model": {"merges": [" ".join(m) for m in base["model"]["merges"]]},
    }
    yield "gpt2_prefix_space", {"pre_tokenizer": {**byte_level, "add_prefix_space": True}}
    yield "whole_text_prefix_space", {
        "pre_tokenizer": {**byte_level, "add_prefix_space": True, "use_regex": False}
    }
    yield "llama3", {
        **split_variant({"Regex": LLAMA3_PATTERN}, "Isolated"), "model": {"ignore_merges": True},
    }
    # A word that is a token although no merge makes it.
    vocabulary = {"ĠHello": len(base["model"]["vocab"])}
    shifted = [dict(token, id=token["id"] + 1) for token in base["added_tokens"]]
    yield "ignore_merges", {
        "model": {"ignore_merges": True, "vocab": vocabulary}, "added_tokens": shifted,
    }
    yield "merges_decide", {
        "model": {"ignore_merges": False, "vocab": vocabulary}, "added_tokens": shifted,
    }
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield "split_" + behavior, split_variant({"Regex": r"\s|\p{P}"}, behavior)
        yield "split_inverted_" + behavior, split_variant({"Regex": r"\p{L}+"},
                                                          behavior,
                                                          invert=True)
    yield "split_string", split_variant({"String": "l"}, "Isolated")
    yield "split_string_special_characters", split_variant({"String": "."}, "Removed")
    yield "prefix_space_after_split", {
        "pre_tokenizer": {
            "type": "Sequence", "pretokenizers": [
                split_variant({"Regex": r"\s"}, "Isolated")["pre_tokenizer"]["pretokenizers"][0], {
                    "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True,
                },
            ],
        }
    }
    flags = added(base, ("<X>", {}), ("<L>", {"lstrip": True}),
                  ("<R>", {"rstrip": True, "special": True}), ("<W>", {"single_word": True}),
                  ("<N>", {"normalized": True}), ("<Né>", {"normalized": True}),
                  ("<Ne\u0301>x", {"normalized": True, "special": True}),
                  ("<N", {"normalized": True}), ("é é", {}),
                  ("é.", {"lstrip": True, "rstrip": True}),
                 )
    yield "added_token_flags", {"added_tokens": flags}
    nfc = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    yield "nfc_in_sequence", {
        "normalizer": nfc, "decoder": {"type": "Sequence", "decoders": [base["decoder"]]},
    }


def digits():
    """A vocabulary of 21 characters without merges, as the quickstart's tasks have."""
    vocabulary = {c: i for i, c in enumerate([*"0123456789+-*/()=:.", "Ġ", "Ċ"])}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
            dict(id=21,
                 content="<eos>",
                 single_word=False,
                 lstrip=False,
                 rstrip=False,
                 normalized=False,
                 special=True,
                )
        ], "normalizer": None, "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
        }, "post_processor": None, "decoder": {
            "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True,
        }, "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


def write(name, value, **options):
    (FOLDER / name).write_text(json.dumps(value, **options) + "\n", encoding="utf-8")


def main():
    FOLDER.mkdir(exist_ok=True)
    base = train()
    write("tokenizer.json", base, ensure_ascii=False, separators=(",", ":"))
    write("digits.json", digits(), ensure_ascii=False, indent=1)
    rng = random.Random(11)
    texts = HANDWRITTEN + list(random_texts(30, 100))
    out = {"texts": texts, "variants": []}
    for name, patch in [("qwen2", {})] + list(variants(base)):
        tokenizer = Tokenizer.from_str(json.dumps(merge_patch(base, patch)))
        more = list(random_texts(300, 101)) if name == "qwen2" else []
        size = tokenizer.get_vocab_size()
        decodes = []
        for _ in range(200 if name == "qwen2" else 5):
            ids = [rng.randrange(size) for _ in range(rng.randint(1, 12))]
            kept = tokenizer.decode(ids, skip_special_tokens=False)
            decodes.append([ids, kept, tokenizer.decode(ids, skip_special_tokens=True)])
        out["variants"].append({
            "name": name, "patch": patch,
            "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
            "more": [[text, tokenizer.encode(text, add_special_tokens=False).ids] for text in more],
            "decodes": decodes,
        })
    write("encodings.json", out, ensure_ascii=True, separators=(",", ":"))


main()
