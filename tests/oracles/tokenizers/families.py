"""Small tokenizers of each kind, trained by the tokenizers package: the normalizer, pre-tokenizer,
post-processor and decoder of a family around a vocabulary of our own."""

import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers,
                       )

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPACE = "\u2581"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def bos(token, number):
    return processors.TemplateProcessing(single=f"{token} $A",
                                         pair=f"{token} $A {token} $B",
                                         special_tokens=[(token, number)],
                                        )


def train_byte_level(corpus, size, pre_tokenizer, specials, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=size,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False,
                                 )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(specials)
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return tokenizer


def sentencepiece_vocabulary(corpus, size, specials):
    """A tokenizer.json whose vocabulary begins as SentencePiece's does: special tokens, bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size,
                                  special_tokens=specials + in_bytes,
                                  limit_alphabet=200,
                                  show_progress=False,
                                 )
    tokenizer.train_from_iterator(corpus, trainer)
    out = json.loads(tokenizer.to_str())
    out["added_tokens"] = [t for t in out["added_tokens"] if t["content"] in specials]
    out["pre_tokenizer"] = None
    return out


def metaspace(base, decoder_strips=True, **parts):
    tokenizer = Tokenizer.from_str(json.dumps(base))
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if decoder_strips:
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def sentencepiece_families(corpus, size):
    base = sentencepiece_vocabulary(corpus, size, ["<unk>", "<s>", "</s>"])
    post = bos("<s>", 1)
    prepend = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    yield "llama2", metaspace(base, normalizer=prepend, post_processor=post)
    first = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
    yield "mistral", metaspace(base, pre_tokenizer=first, post_processor=post)
    yield "metaspace", metaspace(base,
                                 pre_tokenizer=pre_tokenizers.Metaspace(),
                                 decoder=decoders.Metaspace(),
                                 post_processor=post,
                                )
    gemma = sentencepiece_vocabulary(corpus, size,
                                     ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"])
    yield "gemma", metaspace(gemma,
                             decoder_strips=False,
                             normalizer=normalizers.Replace(" ", SPACE),
                             pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
                             post_processor=bos("<bos>", 2),
                            )
    without_bytes = json.loads(json.dumps(base))
    without_bytes["model"]["byte_fallback"] = False
    yield "fused_unk", metaspace(without_bytes, pre_tokenizer=first)
    without_bytes["model"]["fuse_unk"] = False
    yield "unk", metaspace(without_bytes, pre_tokenizer=first)


def byte_level_families(corpus, size):
    chatml = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    yield "qwen", train_byte_level(corpus,
                                   size,
                                   pre_tokenizers.Sequence([split(QWEN2), byte_level()]),
                                   chatml,
                                   normalizer=normalizers.NFC(),
                                  )
    llama3 = train_byte_level(corpus,
                              size,
                              pre_tokenizers.Sequence([split(LLAMA3), byte_level()]),
                              ["<|begin_of_text|>", "<|eot_id|>"],
                              ignore_merges=True,
                             )
    begin = llama3.token_to_id("<|begin_of_text|>")
    llama3.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False),
         bos("<|begin_of_text|>", begin)])
    yield "llama3", llama3
    yield "tekken", train_byte_level(corpus,
                                     size,
                                     pre_tokenizers.Sequence([split(TEKKEN), byte_level()]),
                                     chatml,
                                    )
    digits = pre_tokenizers.Digits(individual_digits=True)
    yield "smollm", train_byte_level(corpus,
                                     size,
                                     pre_tokenizers.Sequence([digits, byte_level(use_regex=True)]),
                                     chatml,
                                    )
    falcon = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"),
        byte_level(use_regex=True),
        pre_tokenizers.Digits(individual_digits=False),
        split("[0-9][0-9][0-9]"),
    ])
    yield "falcon", train_byte_level(corpus, size, falcon, chatml)


def families(corpus, size):
    """Pairs of name and Tokenizer."""
    corpus = list(corpus)
    yield from byte_level_families(corpus, size)
    yield from sentencepiece_families(corpus, size)
