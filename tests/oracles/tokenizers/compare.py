"""Compares `buttress tokenize` and `detokenize` with the tokenizers package, and `tokenize` on
messages with transformers' `apply_chat_template`."""

import argparse
import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import normalizers

from chats import compare_chats
from families import families
from texts import hostile_texts

FIELDS = {"gsm8k": ("question", "answer"), "math": ("problem", "solution")}


def data_texts(folder):
    """Every text of GSM8K and MATH, or nothing where the data sets are not present."""
    for name, fields in FIELDS.items():
        for part in ("train", "test"):
            path = folder / name / f"{part}.jsonl"
            if not path.is_file():
                print(f"tokenizers: {path} is not present; its texts are not compared")
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                yield from (row[field] for field in fields)


def has_old_marks(text):
    """Whether the package orders the marks of text as an old Unicode does: its table of combining
    classes lacks those of about a hundred newer marks, which Buttress has."""
    return normalizers.NFC().normalize_str(text) != unicodedata.normalize("NFC", text)


def run(buttress, command, model, rows, *flags):
    """The objects that a command of buttress prints for rows."""
    file = pathlib.Path(model) / "rows.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for number, row in enumerate(rows):
            out.write(json.dumps({"id": number, **row}) + "\n")
    argv = [buttress, command, "--model", model, str(file), "--json", *flags]
    printed = subprocess.run(argv, capture_output=True, text=True, check=False)
    if printed.returncode != 0:
        sys.exit(f"tokenizers: {' '.join(argv)} failed:\n{printed.stderr[:2000]}")
    objects = [json.loads(line) for line in printed.stdout.split("\n") if line]
    assert [one["id"] for one in objects] == list(range(len(objects)))
    return objects


def show(name, what, given, expected, actual):
    print(f"{name}: {what} of {given!r}\n  expected {expected!r}\n  actual   {actual!r}")


def compare(name, tokenizer, texts, buttress, shown):
    """Prints and counts the differences of encoding and decoding."""
    with tempfile.TemporaryDirectory() as model:
        tokenizer.save(model + "/tokenizer.json")
        wrong = {"encode": 0, "bare": 0, "decode": 0, "skip": 0}
        encoded = tokenizer.encode_batch(texts)
        for kind, flags, expected in (
            ("encode", [], [e.ids for e in encoded]),
            ("bare", ["--no-special-tokens"],
             [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]),
        ):
            rows = run(buttress, "tokenize", model, ({"text": t} for t in texts), *flags)
            for text, ids, row in zip(texts, expected, rows, strict=True):
                if row["token_ids"] != ids:
                    wrong[kind] += 1
                    if wrong[kind] <= shown:
                        show(name, kind, text, ids, row["token_ids"])
        rng = random.Random(5)
        size = tokenizer.get_vocab_size()
        ids = [e.ids for e in encoded if e.ids]
        ids += [[rng.randrange(size) for _ in range(rng.randint(1, 20))] for _ in range(20000)]
        for kind, flags, skip in (("decode", [], False),
                                  ("skip", ["--skip-special-tokens"], True)):
            expected = tokenizer.decode_batch(ids, skip_special_tokens=skip)
            rows = run(buttress, "detokenize", model, ({"token_ids": i} for i in ids), *flags)
            for one, text, row in zip(ids, expected, rows, strict=True):
                if row["text"] != text:
                    wrong[kind] += 1
                    if wrong[kind] <= shown:
                        show(name, kind, one, text, row["text"])
    print(f"{name:<10} {len(texts):>8} texts {len(ids):>8} decoded  " +
          "  ".join(f"{kind} {count} wrong" for kind, count in wrong.items()), flush=True)
    return sum(wrong.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buttress", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--texts", type=int, default=100000, help="hostile texts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="differences printed of each kind")
    parser.add_argument("--family", action="append", help="only these")
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    hostile = [t for t in hostile_texts(args.texts, args.seed) if not has_old_marks(t)]
    print(f"{args.texts - len(hostile)} of {args.texts} hostile texts are left out, because the "
          f"package's NFC differs from that of Unicode {unicodedata.unidata_version}")
    data = list(data_texts(args.data))
    corpus = data[::4] + list(hostile_texts(2000, args.seed + 1))
    wrong = 0
    for name, tokenizer in families(corpus, 2000):
        if not args.family or name in args.family:
            wrong += compare(name, tokenizer, data + hostile, args.buttress, args.show)
            wrong += compare_chats(name, tokenizer, data[:500] + hostile[:500],
                                   functools.partial(run, args.buttress, "tokenize"))
    sys.exit(f"tokenizers: {wrong} differences" if wrong else 0)


main()
