"""Writes countdown_expressions.json: expressions and their values by Python's own parser (ast) and
fractions.Fraction.

    python3 tests/golden/countdown_expressions.py > tests/golden/countdown_expressions.json

A row is [text, value or null, numbers]; null where the text is no expression of the grammar in
lib/verify/countdown.h, or divides by zero. Mutated texts are judged by ast too, with the grammar's
rules on top: only + - * / parentheses, unary minus and plain integers. """

import ast
import json
import random
import re
from fractions import Fraction


def value_of(node, numbers):
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < 2**63:
        numbers.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(node.operand, numbers)
    if isinstance(node, ast.BinOp):
        left = value_of(node.left, numbers)
        right = value_of(node.right, numbers)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return left / right
    raise ValueError(ast.dump(node))


def judge(text):
    numbers = []
    try:
        # Python reads 1_0, 0x1, 00 and "**" or "//", the grammar does not.
        if re.search(r"[^0-9+\-*/() ]|\*\*|//|\b0[0-9]", text):
            raise ValueError(text)
        return str(value_of(ast.parse(text.strip(), mode="eval").body, numbers)), numbers
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None, []


def draw(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return str(rng.choice([0, 1, 2, 3, 7, 9, 25, 100, 99991, 10**12]))
    if kind < 0.4:
        return "-" + draw(rng, depth - 1)
    if kind < 0.6:
        return "(" + draw(rng, depth - 1) + ")"
    space = rng.choice(["", "", " "])
    return draw(rng, depth - 1) + space + rng.choice("+-*/") + space + draw(rng, depth - 1)


def mutate(rng, text):
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(3)
    if kind == 0:
        return text[:at] + rng.choice("+-*/() 05x") + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1:]
    return text[:at] + rng.choice("+-*/()12") + text[at + 1:]


def main():
    rng = random.Random(7)
    texts = [draw(rng, rng.randrange(1, 6)) for _ in range(400)]
    texts += [mutate(rng, rng.choice(texts[:400])) for _ in range(600)]
    texts = [t for t in texts if 0 < len(t) <= 200]
    rows = [[text, *judge(text)] for text in texts]
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")


main()
