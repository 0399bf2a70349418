"""Data whose cold start is confidently wrong: it learns the smallest digit, the reward asks for the
largest.

wrong_rule.py FOLDER SEED   writes train.jsonl, held_out.jsonl and sft.jsonl

Prompts are four digits, "7152>"; the answer is one digit. In sft.jsonl 99 of 100 responses are the
smallest digit and the rest are random digits, so that a right answer has a probability of about a
thousandth.
"""

import json
import pathlib
import random
import sys

HELD_OUT, RESPONSES, RANDOM_SHARE = 1000, 25600, 0.01


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main(folder, seed):
    folder, draw = pathlib.Path(folder), random.Random(int(seed))
    codes = [f"{code:04}" for code in range(10000) if len(set(f"{code:04}")) > 1]
    random.Random(0).shuffle(codes)  # what is held out is equal for every seed
    held_out, train = codes[:HELD_OUT], codes[HELD_OUT:]
    draw.shuffle(train)
    for name, of in (("train", train), ("held_out", held_out)):
        write(folder / f"{name}.jsonl", [{"prompt": f"{code}>", "answer": max(code)}
                                         for code in of])
    responses = []
    for _ in range(RESPONSES):
        code = draw.choice(train)
        wrong = str(draw.randrange(10)) if draw.random() < RANDOM_SHARE else min(code)
        responses.append({"prompt": f"{code}>", "response": wrong})
    write(folder / "sft.jsonl", responses)


main(*sys.argv[1:])
